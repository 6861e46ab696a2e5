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
	kind   string // the body's Content-Type; "" is application/json
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
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
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
func (s *store) must(t *testing.T, code int, r request) string {
	t.Helper()
	got, body, err := s.do(t.Context(), r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.url, err)
	}
	if got != code {
		t.Fatalf("%s %.200s: %d %.300s, want %d", r.method, r.url, got, body, code)
	}
	return body
}

// item is an object as the API shows it.
type item struct {
	Metadata struct {
		Key, Namespace, Name            string
		KeyBase64                       []byte
		ResourceVersion, CreateRevision string
	}
	Value       json.RawMessage
	ValueBase64 *[]byte
}

func (i item) revision() int64 { return revisionOf(i.Metadata.ResourceVersion) }

// bytes is the object's value, in whichever form it is shown.
func (i item) bytes() []byte {
	if i.ValueBase64 != nil {
		return *i.ValueBase64
	}
	return i.Value
}

func parse[T any](t *testing.T, body string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %.300s", err, body)
	}
	return v
}

// status is Kubernetes' Status, of a failure or a success.
type status struct {
	Kind, APIVersion, Status, Message, Reason string
	Code                                      int
	Metadata                                  struct{ ResourceVersion, Continue string }
	Details                                   struct{ Name string }
}

// refused sends a request that must be refused with a code and a reason.
func (s *store) refused(t *testing.T, code int, reason string, r request) status {
	t.Helper()
	st := parse[status](t, s.must(t, code, r))
	if st.Kind != "Status" || st.APIVersion != "v1" || st.Status != "Failure" || st.Code != code ||
		st.Reason != reason || st.Message == "" {
		t.Errorf("%s %.200s: %+v, want a Status with reason %s", r.method, r.url, st, reason)
	}
	return st
}

// putJSON is the body of a PUT: a value, and the version that it replaces, "" for none.
func putJSON(value, version string) string {
	if version == "" {
		return fmt.Sprintf(`{"value":%s}`, value)
	}
	return fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"value":%s}`, version, value)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// revisionOf returns a resourceVersion as a number, 0 if invalid.
func revisionOf(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// versionOf returns the resourceVersion of an object in an answer, "" if there is none.
func versionOf(body string) string {
	var i item
	_ = json.Unmarshal([]byte(body), &i)
	return i.Metadata.ResourceVersion
}
