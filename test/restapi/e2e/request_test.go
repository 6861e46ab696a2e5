package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// request is an HTTP request.
type request struct {
	method string // "" is GET
	url    string
	body   string
}

// do sends a request and returns the answer's code and body.
func (s *store) do(ctx context.Context, r request) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, strings.NewReader(r.body))
	if err != nil {
		return 0, "", err
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// must sends a request and requires a code in the answer.
func (s *store) must(t *testing.T, code int, r request) {
	t.Helper()
	got, body, err := s.do(t.Context(), r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.url, err)
	}
	if got != code {
		t.Fatalf("%s %.200s: %d %.300s, want %d", r.method, r.url, got, body, code)
	}
}

// putJSON is the body of a PUT: a value, and the version that it replaces, "" for none.
func putJSON(value, version string) string {
	if version == "" {
		return fmt.Sprintf(`{"value":%s}`, value)
	}
	return fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"value":%s}`, version, value)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// versionOf returns the resourceVersion of an object in an answer, "" if there is none.
func versionOf(body string) string {
	var i struct {
		Metadata struct{ ResourceVersion string }
	}
	_ = json.Unmarshal([]byte(body), &i)
	return i.Metadata.ResourceVersion
}
