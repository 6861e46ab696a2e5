package console

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// pipedAnswer passes on an answer while it is written.
type pipedAnswer struct {
	answer

	pipe *io.PipeWriter
}

func (a *pipedAnswer) Write(b []byte) (int, error) {
	if a.WriteHeader(http.StatusOK); a.code != http.StatusOK {
		return a.answer.Write(b)
	}
	return a.pipe.Write(b)
}

// read asks for a path like get, and passes the answer to parse while the server writes it: none of it is buffered, so
// it may be of any size. Errors: [*failure], that of parse.
func (x api) read(from *http.Request, path string, query url.Values, parse func(io.Reader) error) error {
	r, err := request(from, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	a := &pipedAnswer{answer: answer{header: http.Header{}}, pipe: out}
	served := make(chan error, 1)
	go func() {
		defer func() {
			// net/http would survive it, too.
			if p := recover(); p != nil {
				served <- fmt.Errorf("the answer of %s: panic: %v", path, p)
			}
			_ = out.Close() // returns nil
		}()
		served <- x.serve(a, r)
	}()
	err = parse(in)
	_ = in.Close() // returns nil; the server cannot write any more
	if served := <-served; served != nil && err != nil {
		return served
	}
	if failed := a.failed(); failed != nil {
		return failed
	}
	return err
}
