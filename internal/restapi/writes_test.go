package restapi_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/restapi"
	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	jsonType  = "Content-Type: application/json"
	bytesType = "Content-Type: application/octet-stream"
)

func TestPutCreatesAndUpdates(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	const path, key = "/v1/objects//registry/pods/default/nginx", "/registry/pods/default/nginx"
	created := s.do("PUT", path, `{"value":{"a":1}}`, jsonType).want(201, "").item()
	if m := created.Metadata; m.Key != key || m.Namespace != "/registry/pods/default/" || m.Name != "nginx" ||
		m.ResourceVersion != "2" || m.CreateRevision != "2" {
		t.Errorf("created %+v", m)
	}
	if string(created.Value) != `{"a":1}` || created.ValueBase64 != nil {
		t.Errorf("created %+v", created)
	}
	s.do("PUT", path, `{"value":2}`, jsonType).want(409, "AlreadyExists")
	s.do("PUT", path, `{"metadata":{"resourceVersion":"0"},"value":2}`, jsonType).want(409, "AlreadyExists")
	s.do("PUT", path, `{"metadata":{"resourceVersion":"1"},"value":2}`, jsonType).want(409, "Conflict")
	s.do("PUT", path, `{"metadata":{"resourceVersion":"9000000000000000000"},"value":2}`, jsonType).want(409,
		"Conflict")
	updated := s.do("PUT", path, `{"metadata":{"resourceVersion":"2"},"value":[2]}`, jsonType).want(200, "").item()
	if m := updated.Metadata; m.ResourceVersion != "3" || m.CreateRevision != "2" || string(updated.Value) != "[2]" {
		t.Errorf("updated %+v", updated)
	}
	s.do("PUT", "/v1/objects/none", `{"metadata":{"resourceVersion":"2"},"value":2}`, jsonType).want(404, "NotFound")
	s.do("PUT", path+"?resourceVersion=3", "\x00\xff", bytesType).want(200, "")
	if row := s.stored(key); string(row.Value) != "\x00\xff" || row.ModRevision != 4 || row.CreateRevision != 2 ||
		row.Version != 3 {
		t.Errorf("stored %+v", row)
	}
	if s.store.Revision() != 4 {
		t.Errorf("refused writes moved the revision to %d", s.store.Revision())
	}
}

func TestPutBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{MaxRequestBytes: 1000})
	n := 0
	for name, c := range map[string]struct {
		headers []string
		body    string
		code    int
		reason  string
		value   string // stored, when created
	}{
		"JSON": {
			[]string{jsonType},
			`{"value":{"b":[1, 2.50,1e3],"a":"<&>"}}`, 201, "",
			`{"b":[1, 2.50,1e3],"a":"<&>"}`,
		},
		"its bytes are kept": {
			[]string{jsonType},
			"{\"value\": {\"a\" :\n12345678901234567890.10}\n}", 201, "",
			"{\"a\" :\n12345678901234567890.10}",
		},
		"null":    {[]string{jsonType}, `{"value":null}`, 201, "", "null"},
		"no type": {nil, `{"value":1}`, 201, "", "1"},
		"curl -d": {
			[]string{"Content-Type: application/x-www-form-urlencoded"},
			`{"value":1}`,
			201, "", "1",
		},
		"a charset": {
			[]string{"Content-Type: application/json; charset=utf-8"},
			`{"value":1}`,
			201, "", "1",
		},
		"base64":         {[]string{jsonType}, `{"valueBase64":"AP8="}`, 201, "", "\x00\xff"},
		"empty":          {[]string{jsonType}, `{"valueBase64":""}`, 201, "", ""},
		"base64 of JSON": {[]string{jsonType}, `{"valueBase64":"e30="}`, 201, "", "{}"},
		"a null base64":  {[]string{jsonType}, `{"value":1,"valueBase64":null}`, 201, "", "1"},
		"metadata of the same key": {
			[]string{jsonType},
			`{"metadata":{"key":"KEY","namespace":"","name":"KEY","createRevision":"7","labels":{}},"value":1}`,
			201, "", "1",
		},
		"null metadata":     {[]string{jsonType}, `{"metadata":null,"value":1}`, 201, "", "1"},
		"members not known": {[]string{jsonType}, `{"kind":"x","Value":2,"value":1}`, 201, "", "1"},
		"bytes":             {[]string{bytesType}, `{"value":1}`, 201, "", `{"value":1}`},
		"no bytes":          {[]string{bytesType}, "", 201, "", ""},
		"as much as may be": {
			[]string{bytesType},
			strings.Repeat("x", 997), 201, "",
			strings.Repeat("x", 997),
		},
		"as much in base64": {
			[]string{jsonType},
			`{"valueBase64":"` + strings.Repeat("eHh4", 332) + `"}`, 201,
			"", strings.Repeat("x", 996),
		},
		"too much": {[]string{bytesType}, strings.Repeat("x", 998), 413, "RequestEntityTooLarge", ""},
		"too much in JSON": {
			[]string{jsonType},
			`{"value":"` + strings.Repeat("x", 1000) + `"}`, 413,
			"RequestEntityTooLarge", "",
		},
		"far too much": {
			[]string{jsonType},
			`{"value":"` + strings.Repeat("x", 1<<20) + `"}`, 413,
			"RequestEntityTooLarge", "",
		},
		"nothing":            {[]string{jsonType}, "", 400, "BadRequest", ""},
		"no object":          {[]string{jsonType}, "[]", 400, "BadRequest", ""},
		"null body":          {[]string{jsonType}, "null", 400, "BadRequest", ""},
		"no value":           {[]string{jsonType}, `{"a":1}`, 400, "BadRequest", ""},
		"both values":        {[]string{jsonType}, `{"value":1,"valueBase64":""}`, 400, "BadRequest", ""},
		"no JSON":            {[]string{jsonType}, `{"value":`, 400, "BadRequest", ""},
		"more than JSON":     {[]string{jsonType}, `{"value":1}{}`, 400, "BadRequest", ""},
		"no UTF-8":           {[]string{jsonType}, "{\"value\":\"\xff\"}", 400, "BadRequest", ""},
		"no base64":          {[]string{jsonType}, `{"valueBase64":"!"}`, 400, "BadRequest", ""},
		"base64 no string":   {[]string{jsonType}, `{"valueBase64":1}`, 400, "BadRequest", ""},
		"metadata no object": {[]string{jsonType}, `{"metadata":[],"value":1}`, 400, "BadRequest", ""},
		"version a number": {
			[]string{jsonType},
			`{"metadata":{"resourceVersion":5},"value":1}`, 400,
			"BadRequest", "",
		},
		"version no number": {
			[]string{jsonType},
			`{"metadata":{"resourceVersion":"x"},"value":1}`, 400,
			"BadRequest", "",
		},
		"version too large": {
			[]string{jsonType},
			`{"metadata":{"resourceVersion":"9223372036854775808"},"value":1}`, 400, "BadRequest", "",
		},
		"another key": {
			[]string{jsonType},
			`{"metadata":{"key":"other"},"value":1}`, 400,
			"BadRequest", "",
		},
		"another namespace": {
			[]string{jsonType},
			`{"metadata":{"namespace":"other/"},"value":1}`, 400,
			"BadRequest", "",
		},
		"another name": {
			[]string{jsonType},
			`{"metadata":{"name":"other"},"value":1}`, 400,
			"BadRequest", "",
		},
		"another key in base64": {
			[]string{jsonType},
			`{"metadata":{"keyBase64":"AP8="},"value":1}`, 400,
			"BadRequest", "",
		},
		"another type": {
			[]string{"Content-Type: text/plain"},
			`{"value":1}`, 415, "UnsupportedMediaType",
			"",
		},
		"garbage for a type": {[]string{"Content-Type: ;;"}, `{"value":1}`, 400, "BadRequest", ""},
		"a coding": {
			[]string{bytesType, "Content-Encoding: gzip"},
			"x", 415, "UnsupportedMediaType",
			"",
		},
		"deep, and yet JSON": {[]string{jsonType}, `{"value":` + strings.Repeat("[", 200) + strings.Repeat("]",
			200) + `}`, 201, "", strings.Repeat("[", 200) + strings.Repeat("]", 200)},
		"a name in another spelling": {[]string{jsonType}, `{"VALUE":1}`, 400, "BadRequest", ""},
	} {
		n++
		key := fmt.Sprintf("k%02d", n)
		t.Run(name, func(t *testing.T) {
			s := *s
			s.t = t
			s.do("PUT", "/v1/objects/"+key, strings.ReplaceAll(c.body, "KEY", key), c.headers...).want(c.code, c.reason)
			row := s.stored(key)
			if (row != nil) != (c.code == 201) {
				t.Fatalf("stored %+v", row)
			}
			if row != nil && string(row.Value) != c.value {
				t.Errorf("stored %q, want %q", row.Value, c.value)
			}
		})
	}
}

func TestPreconditionInQueryAndBody(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	rev := strconv.FormatInt(s.write("k", "1"), 10)
	body := `{"metadata":{"resourceVersion":"` + rev + `"},"value":2}`
	s.do("PUT", "/v1/objects/k?resourceVersion=1", body, jsonType).want(400, "BadRequest")
	s.do("PUT", "/v1/objects/k?resourceVersion=x", body, jsonType).want(400, "BadRequest")
	s.do("PUT", "/v1/objects/k?resourceVersion=0", body, jsonType).want(400, "BadRequest")
	s.do("PUT", "/v1/objects/k?resourceVersion="+rev, body, jsonType).want(200, "")
}

func TestUpdateRetainsTheLease(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	lease, err := s.store.LeaseGrant(t.Context(), 0, 600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Put(t.Context(), &store.PutRequest{
		Key: []byte("k"), Value: []byte("1"),
		Lease: lease.ID,
	}); err != nil {
		t.Fatal(err)
	}
	s.do("PUT", "/v1/objects/k?resourceVersion=2", `{"value":2}`, jsonType).want(200, "")
	if row := s.stored("k"); row.Lease != lease.ID || string(row.Value) != "2" {
		t.Errorf("%+v", row)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.do("DELETE", "/v1/objects/k", "").want(404, "NotFound")
	s.do("DELETE", "/v1/objects/k?resourceVersion=3", "").want(404, "NotFound")
	s.do("DELETE", "/v1/objects/k?resourceVersion=0", "").want(404, "NotFound")
	rev := s.write("k", "1")
	s.write("k2", "1")
	for _, c := range []struct {
		query, body string
		code        int
		reason      string
	}{
		{"?resourceVersion=1", "", 409, "Conflict"},
		{"?resourceVersion=0", "", 409, "Conflict"},
		{"", `{"preconditions":{"resourceVersion":"1"}}`, 409, "Conflict"},
		{"?resourceVersion=2", `{"preconditions":{"resourceVersion":"1"}}`, 400, "BadRequest"},
		{"", `{"preconditions":{"uid":"1"}}`, 400, "BadRequest"},
		{"", `{"dryRun":["All"]}`, 400, "BadRequest"},
		{"?dryRun=All", "", 400, "BadRequest"},
		{"", `{"preconditions":5}`, 400, "BadRequest"},
		{"", `{"preconditions":{"resourceVersion":5}}`, 400, "BadRequest"},
		{"", `x`, 400, "BadRequest"},
		{"", strings.Repeat(" ", 1<<17), 413, "RequestEntityTooLarge"},
	} {
		s.do("DELETE", "/v1/objects/k"+c.query, c.body).want(c.code, c.reason)
	}
	if s.stored("k").ModRevision != rev {
		t.Fatal("a refused deletion deleted")
	}
	st := s.do("DELETE", "/v1/objects/k",
		`{"kind":"DeleteOptions","preconditions":{"resourceVersion":"2"},"dryRun":[]}`).want(200, "").status()
	if st.Kind != "Status" || st.APIVersion != "v1" || st.Status != "Success" || st.Metadata.ResourceVersion != "4" ||
		st.Details.Name != "k" || st.Code != 200 {
		t.Errorf("%+v", st)
	}
	if s.stored("k") != nil || s.stored("k2") == nil {
		t.Error("another key was deleted")
	}
	s.do("DELETE", "/v1/objects/k2", "").want(200, "")
}

// Beyond the quota, only what adds nothing is done.
func TestDatabaseIsFull(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	s.do("PUT", "/v1/objects/k", `{"value":1}`).want(201, "")
	s.store.SetQuota(1)
	if r := s.do("PUT", "/v1/objects/l", `{"value":1}`).want(503, "ServiceUnavailable"); !strings.Contains(r.body,
		"NOSPACE") {
		t.Errorf("%s", r.body)
	}
	s.do("GET", "/v1/objects/?limit=1", "").want(200, "")
	s.do("DELETE", "/v1/objects/k", "").want(200, "")
}

// A refusal says what the sender can change.
func TestWhatRefusalsSay(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{MaxRequestBytes: 1000})
	much := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ method, path, body, says string }{
		{"PUT", "/v1/objects/k", `{"value":"` + much + `"}`, "1000 bytes"},
		{"PUT", "/v1/objects/k", `{"value":"` + much[:1000] + `"}`, "1000 bytes"},
		{"DELETE", "/v1/objects/k", much, "the limit is 65536 bytes\""},
		{"PUT", "/v1/objects/k", "[]", "the body is JSON, but not an object: the body must be"},
		{"GET", "/", "", "objects are at /v1/objects/<key>"},
	} {
		r := s.do(c.method, c.path, c.body, jsonType)
		if r.code < 400 || !strings.Contains(r.body, c.says) {
			t.Errorf("%s %s is answered %s, want %s", c.method, c.path, r.body, c.says)
		}
	}
}
