package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/dustin/go-humanize"
)

// api asks the server's HTTP API within the process.
type api struct{ handler http.Handler }

// failure is an answer with a status other than 200.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`

	Key string `json:"-"` // what to look at again, if anything

	exact      bool     // the message says all there is to say
	challenges []string // of WWW-Authenticate
}

func (f *failure) Error() string { return fmt.Sprintf("%d: %s", f.Code, f.Message) }

// challenge adds the ways to authenticate to an answer. A browser would ask for a password by itself if it got Basic:
// the console has a page for that.
func (f *failure) challenge(w http.ResponseWriter, r *http.Request) {
	for _, challenge := range f.challenges {
		if !fromBrowser(r) || !strings.HasPrefix(challenge, "Basic ") {
			w.Header().Add("WWW-Authenticate", challenge)
		}
	}
}

// Text returns the status in words.
func (f *failure) Text() string { return http.StatusText(f.Code) }

// Words returns the message, or says what the status means.
func (f *failure) Words() string {
	if f.Code == http.StatusGone && !f.exact {
		return "That revision or time is not in the history that is left: it has been compacted, or nobody knows " +
			"when it was committed."
	}
	var asked, newest int64
	if n, _ := fmt.Sscanf(f.Message, "Too large resource version: %d, current: %d", &asked, &newest); n == 2 {
		return fmt.Sprintf("Revision %s does not exist yet. The newest is %s.", humanize.Comma(asked),
			humanize.Comma(newest))
	}
	return f.Message
}

// answer collects an answer. Its size is bounded by what the API sends.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// failed returns the answer as an error, nil if it is none.
func (a *answer) failed() error {
	if a.code == http.StatusOK || a.code == http.StatusCreated {
		return nil
	}
	f := &failure{}
	if json.Unmarshal(a.body.Bytes(), f) != nil {
		f.Message = a.body.String()
	}
	f.Code, f.challenges = a.code, a.header["Www-Authenticate"]
	return f
}

// request returns a request on behalf of the browser's. body is a value, nil for none.
func request(from *http.Request, method, path string, query url.Values, body []byte) (*http.Request, error) {
	to, err := url.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", path, err)
	}
	if strings.HasPrefix(path, objectsPath) && method == http.MethodGet {
		query = maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		query.Set("base64", "true") // JSON would lose the white space around it
	}
	to.RawQuery = query.Encode()
	r := &http.Request{
		Method: method, URL: to, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: http.NoBody, Host: from.Host, RemoteAddr: from.RemoteAddr, TLS: from.TLS,
	}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if credentials := from.Header.Get("Authorization"); credentials != "" {
		r.Header.Set("Authorization", credentials)
	}
	return r.WithContext(from.Context()), nil
}

// get asks for a path, on behalf of the browser's request, and decodes the answer. Errors: [*failure], those of JSON.
func (x api) get(from *http.Request, path string, query url.Values, into any) error {
	return x.do(from, http.MethodGet, path, query, nil, into)
}

// do is get with any method, and a value to write.
func (x api) do(from *http.Request, method, path string, query url.Values, body []byte, into any) error {
	r, err := request(from, method, path, query, body)
	if err != nil {
		return err
	}
	a := &answer{header: http.Header{}}
	if err := x.serve(a, r); err != nil {
		return err
	}
	if err := a.failed(); err != nil {
		return err
	}
	if err := json.Unmarshal(a.body.Bytes(), into); err != nil {
		return fmt.Errorf("the answer of %s: %w", path, err)
	}
	return nil
}

// serve runs the handler. One that cuts its answer off panics, as it would within net/http.
func (x api) serve(a http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			err = fmt.Errorf("the answer of %s: %w", r.URL.Path, http.ErrAbortHandler)
		default:
			panic(p)
		}
	}()
	x.handler.ServeHTTP(a, r)
	return nil
}

// metadata is that of an object of the list/watch API.
type metadata struct {
	Key             string `json:"key"`
	KeyBase64       []byte `json:"keyBase64"` // if the key is not UTF-8
	ResourceVersion int64  `json:"resourceVersion,string"`
	CreateRevision  int64  `json:"createRevision,string"`
	Lease           string `json:"lease"` // its id in hexadecimal, "" for none
}

func (m *metadata) key() string { return bytesOr(m.KeyBase64, m.Key) }

// bytesOr returns a text of the API, of which it has the bytes too if they are not UTF-8.
func bytesOr(raw []byte, text string) string {
	if raw != nil {
		return string(raw)
	}
	return text
}
