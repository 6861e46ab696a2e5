package restapi_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/restapi"
)

// A client that has the current version need not receive it again.
func TestConditionalGet(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	const path = "/v1/objects/k"
	if tag := s.do("PUT", path, `{"value":1}`).want(201, "").header.Get("ETag"); tag != `"2"` {
		t.Errorf("created with the ETag %s", tag)
	}
	unchanged := func(path string, headers ...string) {
		t.Helper()
		for _, method := range []string{"GET", "HEAD"} {
			if r := s.do(method, path, "", headers...); r.code != 304 || r.body != "" || r.header.Get("ETag") != `"2"` {
				t.Errorf("%s with %q: %d, ETag %s, %q", method, headers, r.code, r.header.Get("ETag"), r.body)
			}
		}
	}
	unchanged(path, `If-None-Match: "2"`)
	unchanged(path, `If-None-Match: W/"2"`)
	unchanged(path, `If-None-Match: "a,b", "1" ,"2"`)
	unchanged(path, `If-None-Match: *`)
	unchanged(path, `If-None-Match: "2"`, `If-Match: "2"`)
	unchanged(path+"?at=2200-01-01T00:00:00Z", `If-None-Match: "2"`)
	for _, headers := range [][]string{
		nil,
		{`If-None-Match: "1", "3"`},
		{`If-None-Match: "02"`},
		{`If-None-Match: ""`},
		{`If-Match: "1", "2"`},
		{"If-Match: *"},
	} {
		if r := s.do("GET", path, "", headers...).want(200, ""); r.header.Get("ETag") != `"2"` {
			t.Errorf("with %q: the ETag %s", headers, r.header.Get("ETag"))
		}
	}
	for _, tag := range []string{`"1"`, `W/"2"`, `"x"`} {
		s.do("GET", path, "", "If-Match: "+tag).want(412, "Conflict")
	}
	s.do("GET", "/v1/objects/none", "", "If-None-Match: *").want(404, "NotFound")
	for _, tag := range []string{"2", `"2`, "W/2", ",", ""} {
		s.do("GET", path, "", "If-None-Match: "+tag).want(400, "BadRequest")
	}
	s.do("PUT", path+"?resourceVersion=2", `{"value":2}`).want(200, "")
	s.do("GET", path, "", `If-None-Match: "2"`).want(200, "")
	// Lists, histories, watches and the description have no ETag.
	for _, path := range []string{
		"/v1/objects/", path + "?history=true", path + "?watch=true", "/v1/objects/?watch=true", "/openapi.json",
	} {
		s.do("GET", path, "", `If-None-Match: "2"`).want(400, "BadRequest")
		s.do("GET", path, "", `If-Match: "2"`).want(400, "BadRequest")
	}
}

// A write is done only if the object is what its headers say.
func TestConditionalWrites(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	const path, none = "/v1/objects/k", "/v1/objects/none"
	put := func(path, body string, headers ...string) *reply {
		t.Helper()
		return s.do("PUT", path, body, headers...)
	}
	put(path, `{"value":1}`, `If-Match: "2"`).want(412, "NotFound")
	put(path, `{"value":1}`, "If-Match: *").want(412, "NotFound")
	put(path, `{"value":1}`, "If-None-Match: *").want(201, "")
	put(path, `{"value":2}`, "If-None-Match: *").want(412, "AlreadyExists")
	put(path, `{"value":2}`, `If-Match: "1"`).want(412, "Conflict")
	if r := put(path, `{"value":2}`, `If-Match: "2"`).want(200, ""); r.header.Get("ETag") != `"3"` {
		t.Errorf("updated with the ETag %s", r.header.Get("ETag"))
	}
	if i := put(path, `{"value":3}`, "If-Match: *").want(200, "").item(); i.Metadata.CreateRevision != "2" {
		t.Errorf("updated to %+v", i)
	}
	put(path, `{"metadata":{"resourceVersion":"4"},"value":4}`, `If-Match: "4"`).want(200, "")
	for _, headers := range [][]string{
		{`If-Match: "4", "5"`},
		{`If-Match: W/"5"`},
		{`If-Match: "x"`},
		{"If-Match: 5"},
		{`If-None-Match: "4"`},
		{"If-Match: *", "If-None-Match: *"},
	} {
		put(path, `{"value":5}`, headers...).want(400, "BadRequest")
	}
	put(path+"?resourceVersion=5", `{"value":5}`, `If-Match: "4"`).want(400, "BadRequest")
	put(path+"?resourceVersion=5", `{"value":5}`, "If-Match: *").want(400, "BadRequest")
	put(path+"?resourceVersion=5", `{"value":5}`, "If-None-Match: *").want(400, "BadRequest")

	s.do("DELETE", path, "", `If-Match: "4"`).want(412, "Conflict")
	s.do("DELETE", path, "", `If-None-Match: *`).want(400, "BadRequest")
	s.do("DELETE", path, `{"preconditions":{"resourceVersion":"4"}}`, jsonType, `If-Match: "5"`).want(400, "BadRequest")
	if row := s.stored("k"); row == nil || string(row.Value) != "4" || s.store.Revision() != 5 {
		t.Errorf("stored %+v at %d", row, s.store.Revision())
	}
	s.do("DELETE", path, "", `If-Match: "5"`).want(200, "")
	s.do("DELETE", none, "", "If-Match: *").want(412, "NotFound")
	s.do("DELETE", none, "", `If-Match: "5"`).want(412, "NotFound")
	s.do("DELETE", none, `{"preconditions":{"resourceVersion":"5"}}`, jsonType).want(404, "NotFound")
	s.do("DELETE", none, "").want(404, "NotFound")
}
