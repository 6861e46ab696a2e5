package restapi_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/restapi"
)

// historyJSON is a history as clients see it.
type historyJSON struct {
	Kind     string
	Metadata struct{ ResourceVersion, CurrentResourceVersion string }
	Items    []struct {
		itemJSON

		CommittedAt time.Time
		Deleted     bool
	}
}

// line returns a history as text: version, value or X for a deletion.
func (h *historyJSON) line() string {
	var out []string
	for i := range h.Items {
		v := &h.Items[i]
		text := string(v.Value)
		if v.Deleted {
			text = "X"
		}
		out = append(out, v.Metadata.ResourceVersion+":"+text)
	}
	return strings.Join(out, " ") + " up to " + h.Metadata.ResourceVersion + " of " + h.Metadata.CurrentResourceVersion
}

// The history of an object has all of its versions that are left, in parts if the client asks for it.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	began := time.Now().Add(-time.Hour)
	s.do("GET", "/v1/objects/ns/k?history=true", "").want(404, "NotFound")
	s.write("ns/k", "1")  // 2
	s.write("other", "1") // 3
	s.write("ns/k", "2")  // 4
	s.remove("ns/k")      // 5
	s.write("ns/k", "3")  // 6
	want := func(query, line string) {
		t.Helper()
		var h historyJSON
		s.do("GET", "/v1/objects/ns/k?history=true"+query, "").want(200, "").decode(&h)
		if h.Kind != "ObjectHistory" || h.line() != line {
			t.Errorf("%s: %s, want %s", query, h.line(), line)
		}
		for i := range h.Items {
			if h.Items[i].CommittedAt.Before(began) {
				t.Errorf("%s: version %d was committed at %v", query, i, h.Items[i].CommittedAt)
			}
		}
	}
	want("", "2:1 4:2 5:X 6:3 up to 6 of 6")
	want("&limit=2", "2:1 4:2 up to 4 of 6")
	want("&limit=2&resourceVersion=4", "5:X 6:3 up to 6 of 6")
	want("&resourceVersion=6", " up to 6 of 6")
	compact(t, s, 4)
	want("", "4:2 5:X 6:3 up to 6 of 6")
	want("&limit=1", "4:2 up to 4 of 6")
	want("&limit=2", "4:2 5:X up to 5 of 6")
	s.do("GET", "/v1/objects/ns/k?history=true&resourceVersion=3", "").want(410, "Expired")
	s.do("GET", "/v1/objects/ns/k?history=true&resourceVersion=x", "").want(400, "BadRequest")
	s.do("GET", "/v1/objects/ns/k?history=true&resourceVersionMatch=Exact", "").want(400, "BadRequest")
	s.do("GET", "/v1/objects/ns/k?history=true&at=2026-01-01T00:00:00Z", "").want(400, "BadRequest")
	s.do("GET", "/v1/objects/none?history=true", "").want(404, "NotFound")
}

// What only reads can do is refused elsewhere, not ignored.
func TestHistoryElsewhere(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.write("ns/k", "1")
	const at = "at=2100-01-01T00:00:00Z"
	for path, where := range map[string]string{
		"GET /v1/objects/ns/?history=true":            "a GET of one object without watch",
		"GET /v1/objects/ns/?watch=true&history":      "a GET of one object without watch",
		"GET /v1/objects/ns/k?watch=true&history=1":   "a GET of one object without watch",
		"GET /v1/objects/ns/k?watch=true&" + at:       "a GET of an object, a list or a tree without watch",
		"GET /v1/objects/ns/?watch=true&" + at:        "a GET of an object, a list or a tree without watch",
		"DELETE /v1/objects/ns/k?" + at:               "a GET of an object, a list or a tree without watch",
		"GET /v1/objects/ns/?history=nonsense":        "nonsense",
		"GET /v1/objects/ns/?watch=true&at=yesterday": "is not a time",
	} {
		method, path, _ := strings.Cut(path, " ")
		if a := s.do(method, path, "").want(400, "BadRequest"); !strings.Contains(a.body, where) {
			t.Errorf("%s %s: %s", method, path, a.body)
		}
	}
	s.do("GET", "/v1/objects/ns/?history=false", "").want(200, "")
}

// An object can be read as it was at a version, by the rules of lists.
func TestReadAtAVersion(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.write("ns/k", "1") // 2
	s.write("ns/l", "1")
	s.write("ns/k", "2") // 4
	s.remove("ns/k")     // 5
	s.write("ns/k", "3") // 6
	at := func(query string) *reply { return s.do("GET", "/v1/objects/ns/k?resourceVersion="+query, "") }
	exactly := func(revision int) *reply { return at(fmt.Sprintf("%d&resourceVersionMatch=Exact", revision)) }
	for revision, version := range map[int]string{2: "2", 3: "2", 4: "4", 6: "6"} {
		if i := exactly(revision).want(200, "").item(); i.Metadata.ResourceVersion != version {
			t.Errorf("at %d it was version %s, want %s", revision, i.Metadata.ResourceVersion, version)
		}
	}
	exactly(1).want(404, "NotFound")
	exactly(5).want(404, "NotFound")
	exactly(7).want(504, "Timeout")
	if i := at("2&resourceVersionMatch=NotOlderThan").want(200, "").item(); i.Metadata.ResourceVersion != "6" {
		t.Errorf("not older than 2: version %s", i.Metadata.ResourceVersion)
	}
	for _, query := range []string{
		"&resourceVersionMatch=Exact", "0&resourceVersionMatch=Exact", "&resourceVersionMatch=NotOlderThan",
		"2&resourceVersionMatch=exact",
	} {
		at(query).want(400, "BadRequest")
	}
	compact(t, s, 4)
	exactly(3).want(410, "Expired")
	exactly(4).want(200, "")
}

// An object and a list can be read as they were at a time.
func TestReadAtATime(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.write("ns/k", "1") // 2
	first, _, err := s.store.WrittenAt(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for n := int64(3); ; n++ { // until a later millisecond
		s.write("ns/k", "2")
		if c, _, err := s.store.WrittenAt(t.Context(), n); err != nil {
			t.Fatal(err)
		} else if c.At.After(first.At) {
			break
		}
	}
	s.write("ns/l", "1")
	then := "at=" + url.QueryEscape(first.At.UTC().Format(time.RFC3339Nano))
	found, _, err := s.store.CurrentAt(t.Context(), first.At)
	if err != nil {
		t.Fatal(err)
	}
	if i := s.do("GET", "/v1/objects/ns/k?"+then, "").want(200, "").item(); i.Metadata.ResourceVersion !=
		fmt.Sprint(found.Revision) {
		t.Errorf("then it was version %s, want %d", i.Metadata.ResourceVersion, found.Revision)
	}
	s.do("GET", "/v1/objects/ns/l?"+then, "").want(404, "NotFound")
	if l := s.do("GET", "/v1/objects/ns/?"+then, "").want(200, "").list(); keys(l) != "ns/k" ||
		l.Metadata.ResourceVersion != fmt.Sprint(found.Revision) {
		t.Errorf("then there were %s at %s", keys(l), l.Metadata.ResourceVersion)
	}
	if l := s.do("GET", "/v1/objects/ns/?at=2100-01-01T00:00:00Z", "").want(200, "").list(); keys(l) != "ns/k ns/l" {
		t.Errorf("in the future there are %s", keys(l))
	}
	for _, path := range []string{"/v1/objects/ns/k", "/v1/objects/ns/"} {
		s.do("GET", path+"?at=2000-01-01T00:00:00Z", "").want(410, "Expired")
		s.do("GET", path+"?at=noon", "").want(400, "BadRequest")
		s.do("GET", path+"?resourceVersion=2&"+then, "").want(400, "BadRequest")
	}
}
