package restapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/restapi"
)

// listJSON is a list as clients see it.
type listJSON struct {
	Kind, APIVersion string

	Metadata struct {
		ResourceVersion, Continue string
		RemainingItemCount        *int64
	}
	Items []itemJSON
}

func (r *reply) list() (l listJSON) {
	r.t.Helper()
	r.decode(&l)
	if l.Kind != "ObjectList" || l.APIVersion != "sqlstore/v1" || l.Items == nil {
		r.t.Fatalf("%.300s is not a list", r.body)
	}
	return l
}

func keys(l listJSON) string {
	names := make([]string, len(l.Items))
	for i, item := range l.Items {
		names[i] = item.Metadata.Key
	}
	return strings.Join(names, " ")
}

func compact(t testing.TB, s *served, revision int64) {
	t.Helper()
	if _, err := s.store.Compact(t.Context(), revision, true); err != nil {
		t.Fatal(err)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.do("GET", "/v1/objects/ns/k", "").want(404, "NotFound")
	s.write("ns/k", `{"a":1.0}`) // 2
	s.write("ns/k", `{"a":2.0}`) // 3
	s.write("other", "x")        // 4
	const want = `{"metadata":{"key":"ns/k","namespace":"ns/","name":"k","resourceVersion":"3",` +
		`"createRevision":"2"},"value":{"a":2.0}}` + "\n"
	for _, query := range []string{"", "?resourceVersion=", "?resourceVersion=1", "?unknown=x", "?watch=false"} {
		r := s.do("GET", "/v1/objects/ns/k"+query, "").want(200, "")
		if r.body != want || r.header.Get("Content-Length") != strconv.Itoa(len(want)) {
			t.Errorf("%s: %v %q", query, r.header, r.body)
		}
	}
	head := s.do("HEAD", "/v1/objects/ns/k", "").want(200, "")
	if head.body != "" || head.header.Get("Content-Length") != strconv.Itoa(len(want)) {
		t.Errorf("HEAD: %v %q", head.header, head.body)
	}
	if r := s.do("HEAD", "/v1/objects/none", "").want(404, ""); r.body != "" {
		t.Errorf("HEAD: %q", r.body)
	}
	future := s.do("GET", "/v1/objects/ns/k?resourceVersion=5", "").want(504, "Timeout")
	st := future.status()
	if st.Message != "Too large resource version: 5, current: 4" {
		t.Errorf("%q", st.Message)
	}
	if c := st.Details.Causes; len(c) != 1 || c[0].Reason != "ResourceVersionTooLarge" ||
		c[0].Message != "Too large resource version" {
		t.Errorf("%+v", st.Details)
	}
	if st.Details.RetryAfterSeconds != 1 || future.header.Get("Retry-After") != "1" {
		t.Errorf("%+v, Retry-After %q", st.Details, future.header.Get("Retry-After"))
	}
}

func TestListInChunks(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	for i := range 5 {
		s.write(fmt.Sprintf("p/%d", i), strconv.Itoa(i))
	}
	s.write("p", "1")
	s.write("q/0", "1") // 8
	if l := s.do("GET", "/v1/objects/", "").want(200, "").list(); keys(l) != "p p/0 p/1 p/2 p/3 p/4 q/0" ||
		l.Metadata.ResourceVersion != "8" {
		t.Errorf("everything: %+v", l)
	}
	r := s.do("GET", "/v1/objects/p/", "").want(200, "")
	if l := r.list(); keys(l) != "p/0 p/1 p/2 p/3 p/4" || l.Metadata.Continue != "" ||
		l.Metadata.RemainingItemCount != nil {
		t.Errorf("all: %s", r.body)
	}
	if r.header.Get("Content-Length") != strconv.Itoa(len(r.body)) {
		t.Errorf("%v", r.header)
	}
	if l := s.do("GET", "/v1/objects/none/", "").want(200, "").list(); len(l.Items) != 0 {
		t.Errorf("none: %+v", l)
	}
	if head := s.do("HEAD", "/v1/objects/p/", "").want(200, ""); head.body != "" ||
		head.header.Get("Content-Length") != strconv.Itoa(len(r.body)) {
		t.Errorf("HEAD: %v", head.header)
	}
	first := s.do("GET", "/v1/objects/p/?limit=2", "").want(200, "").list()
	if keys(first) != "p/0 p/1" || *first.Metadata.RemainingItemCount != 3 || first.Metadata.Continue == "" {
		t.Fatalf("first: %+v", first)
	}
	next := "/v1/objects/p/?limit=2&continue=" + first.Metadata.Continue
	second := s.do("GET", next, "").want(200, "").list()
	if keys(second) != "p/2 p/3" || second.Metadata.ResourceVersion != "8" || *second.Metadata.RemainingItemCount != 1 {
		t.Errorf("second: %+v", second)
	}
	s.do("GET", "/v1/objects/q/?continue="+first.Metadata.Continue, "").want(400, "BadRequest")

	compact(t, s, s.write("p/11", "new"))
	st := s.do("GET", "/v1/objects/p/?resourceVersion=8&resourceVersionMatch=Exact", "").want(410, "Expired").status()
	if !strings.Contains(st.Message, "from the beginning") || st.Metadata.Continue == "" {
		t.Errorf("%+v", st)
	}
	st = s.do("GET", next, "").want(410, "Expired").status()
	if !strings.Contains(st.Message, "inconsistent list") {
		t.Errorf("%q", st.Message)
	}
	rest := s.do("GET", "/v1/objects/p/?continue="+st.Metadata.Continue, "").want(200, "").list()
	if keys(rest) != "p/11 p/2 p/3 p/4" || rest.Metadata.ResourceVersion != "9" {
		t.Errorf("rest: %+v", rest)
	}
}

// A list that exceeds the buffer comes in HTTP chunks, and is complete.
func TestLongList(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	value, err := json.Marshal(strings.Repeat("x", 10_000))
	if err != nil {
		t.Fatal(err)
	}
	const n = 60
	for i := range n {
		s.write(fmt.Sprintf("p/%03d", i), string(value))
	}
	r := s.do("GET", "/v1/objects/p/", "").want(200, "")
	l := r.list()
	if len(l.Items) != n || l.Metadata.ResourceVersion != strconv.Itoa(n+1) || r.header.Get("Content-Length") != "" {
		t.Fatalf("%d items, %+v, %v", len(l.Items), l.Metadata, r.header)
	}
	for i, item := range l.Items {
		if item.Metadata.Key != fmt.Sprintf("p/%03d", i) || string(item.Value) != string(value) {
			t.Fatalf("item %d: %+v", i, item.Metadata)
		}
	}
	if r := s.do("HEAD", "/v1/objects/p/", "").want(200, ""); r.body != "" {
		t.Errorf("HEAD answered %d bytes", len(r.body))
	}
}

// A list that breaks off does not look complete.
func TestListThatIsCutOff(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			b := &failing{Backend: openSQLite(t)}
			s := serveOver(t, b, restapi.Options{}, noIndex, secure)
			value := `"` + strings.Repeat("x", 10_000) + `"`
			for i := range 100 {
				s.write(fmt.Sprintf("p/%03d", i), value)
			}
			b.after.Store(1)
			refused := s.do("GET", "/v1/objects/p/", "").want(503, "ServiceUnavailable") // before anything was sent
			if m := refused.status().Message; m != "as the test wants it" {
				t.Errorf("message %q", m)
			}
			b.after.Store(3)
			resp := s.open("GET", "/v1/objects/p/", "")
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusOK || err == nil || json.Valid(body) {
				t.Fatalf("%s, %v after %d bytes", resp.Status, err, len(body))
			}
			if !secure && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v", err)
			}
		})
	}
}
