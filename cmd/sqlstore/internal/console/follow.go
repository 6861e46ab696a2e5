package console

import (
	"bytes"
	"net/http"
	"net/url"
)

// linesAnswer passes on an answer of lines while it is written. The pieces in which it comes end anywhere.
type linesAnswer struct {
	answer

	line    func([]byte) error
	flushed func() error
	part    []byte // a line whose end is missing
	err     error  // of line or flushed, after which nothing is passed on
}

func (a *linesAnswer) Write(b []byte) (int, error) {
	if a.WriteHeader(http.StatusOK); a.code != http.StatusOK {
		return a.answer.Write(b)
	}
	size := len(b)
	for a.err == nil {
		head, rest, whole := bytes.Cut(b, []byte("\n"))
		if a.part = append(a.part, head...); !whole {
			return size, nil
		}
		b, a.err = rest, a.line(a.part)
		a.part = a.part[:0]
	}
	return 0, a.err
}

// FlushError implements what [http.ResponseController] looks for.
func (a *linesAnswer) FlushError() error {
	if a.err == nil && a.code == http.StatusOK {
		a.err = a.flushed()
	}
	return a.err
}

// follow asks for a path like get. It passes each line of the answer to line, which must not retain it, and calls
// flushed where the server has sent all there is. An error of one of them ends the request, and is returned. Errors:
// [*failure].
func (x api) follow(from *http.Request, path string, query url.Values, line func([]byte) error,
	flushed func() error,
) error {
	r, err := request(from, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	a := &linesAnswer{answer: answer{header: http.Header{}}, line: line, flushed: flushed}
	err = x.serve(a, r)
	if a.err != nil {
		return a.err
	}
	if err != nil {
		return err
	}
	return a.failed()
}
