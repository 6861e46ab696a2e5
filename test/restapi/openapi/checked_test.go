package openapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// checked is a transport that compares every answer with the description.
type checked struct {
	t    *testing.T
	doc  *openapi3.T
	mu   sync.Mutex
	seen map[string]bool // "operation code"
}

// load fetches the description of a server and validates it.
func load(t *testing.T, url string) *openapi3.T {
	t.Helper()
	resp, err := http.Get(url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", resp.Status, err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// template is the path that a request matches if it is described.
func template(path string) string {
	for prefix, name := range map[string]string{
		"/v1/tree/": "{prefix}", "/v1/leases/": "{id}", "/v1/users/": "{name}", "/v1/roles/": "{name}",
	} {
		switch rest, ok := strings.CutPrefix(path, prefix); {
		case ok && rest != "":
			return prefix + name
		case ok:
			return prefix
		}
	}
	key, ok := strings.CutPrefix(path, "/v1/objects/")
	switch {
	case !ok:
		return path
	case key == "":
		return "/v1/objects/"
	case strings.HasSuffix(key, "/"):
		return "/v1/objects/{prefix}/"
	}
	return "/v1/objects/{key}"
}

// operation is the description of a request, nil if there is none.
func (c *checked) operation(r *http.Request) *openapi3.Operation {
	item := c.doc.Paths.Value(template(r.URL.Path))
	method := r.Method
	if item == nil {
		return nil
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return item.Operations()[method]
}

// RoundTrip implements [http.RoundTripper].
func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s %s: %s", r.Method, r.URL, resp.Status)
	if got := resp.Header.Get("Content-Type"); got != "application/json" {
		c.t.Errorf("%s has the type %q", what, got)
	}
	schema := c.doc.Components.Schemas["Status"].Value
	if op := c.operation(r); op != nil {
		answer := op.Responses.Status(resp.StatusCode)
		if answer == nil {
			c.t.Errorf("%s is not described", what)
			return resp, nil
		}
		schema = answer.Value.Content["application/json"].Schema.Value
		c.mu.Lock()
		c.seen[fmt.Sprint(op.OperationID, " ", resp.StatusCode)] = true
		c.mu.Unlock()
	} else if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed &&
		resp.StatusCode != http.StatusBadRequest {
		c.t.Errorf("%s, but no such operation is described", what)
	}
	if r.Method == http.MethodHead {
		return resp, nil
	}
	if resp.StatusCode == http.StatusOK && r.URL.Query().Has("watch") && r.Method == http.MethodGet {
		resp.Body = c.lines(what, resp.Body)
		return resp, nil
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	c.check(what, schema, text)
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// check validates a text against a schema.
func (c *checked) check(what string, schema *openapi3.Schema, text []byte) {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		c.t.Errorf("%s: %v: %s", what, err, text)
	} else if err := schema.VisitJSON(v, openapi3.MultiErrors()); err != nil {
		c.t.Errorf("%s: %v", what, err)
	}
}

// lines passes a watch on and validates each event.
func (c *checked) lines(what string, body io.ReadCloser) io.ReadCloser {
	schemas := c.doc.Components.Schemas
	of := map[string]string{
		"ADDED": "Object", "MODIFIED": "Object", "DELETED": "Object", "BOOKMARK": "Bookmark",
		"ERROR": "Status",
	}
	out, in := io.Pipe()
	go func() {
		all := bufio.NewReader(body)
		for {
			line, err := all.ReadBytes('\n')
			if err == nil {
				c.check(what, schemas["WatchEvent"].Value, line)
				var e struct {
					Type   string
					Object json.RawMessage
				}
				if json.Unmarshal(line, &e) == nil && schemas[of[e.Type]] != nil { // otherwise the check reports it
					c.check(what, schemas[of[e.Type]].Value, e.Object)
				}
				_, err = in.Write(line)
			}
			if err != nil {
				in.CloseWithError(err)
				return
			}
		}
	}()
	return &piped{out, body}
}

// piped is the part of a body that another reader has read; closing it closes the body.
type piped struct {
	*io.PipeReader
	body io.Closer
}

func (p *piped) Close() error {
	_ = p.PipeReader.Close()
	return p.body.Close()
}
