package restapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/paging"
)

// same reports whether two JSON texts mean the same to a reader that keeps numbers as they are.
func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	var short [2]bytes.Buffer
	for i, text := range [][]byte{a, b} {
		if err := json.Compact(&short[i], text); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
	}
	return bytes.Equal(short[0].Bytes(), short[1].Bytes())
}

// An item that is put as it was shown is the same item, in a list and in a watch.
func FuzzItem(f *testing.F) {
	for _, v := range []string{
		"", "null", `"x"`, "1e3", "12345678901234567890.10", " {\"a\" : [1,\n2]}\r\n", "{\"a\":\"<&>\\n\u2028\"}",
		"\xff", "\"\xff\"", "k8s\x00", `{"a":1,"a":2}`,
		strings.Repeat("[", 200) + strings.Repeat("]", 200), `"` + strings.Repeat("[", 200) + `"`, "\ufeff1", "[]", "{",
		"\"\\\"[{\"", `{"n":1.10,"e":1e400}`, "hello", "{} {}", `"<a href='x'>&\u2028"`, "k8s\x00\n\x0c\n\x02v1",
	} {
		f.Add([]byte("/registry/pods/default/nginx"), []byte(v), false)
		f.Add([]byte("a\"\\\x00\x1f\x7f\xff/\u20ac\u2028"), []byte(v), true)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, oneLine bool) {
		if len(key) == 0 {
			return
		}
		row := &store.Row{Key: key, Value: value, ModRevision: 7, CreateRevision: 3}
		b := appendItem(nil, row, form{oneLine: oneLine})
		if !json.Valid(b) || !utf8.Valid(b) {
			t.Fatalf("%q is not JSON", b)
		}
		shown := isJSON(value)
		if shown && !oneLine && !bytes.Contains(b, append([]byte(`"value":`), value...)) {
			t.Errorf("%q does not hold the bytes %q", b, value)
		}
		if !shown && json.Valid(value) && utf8.Valid(value) && bytes.Count(value, []byte("["))+bytes.Count(value,
			[]byte("{")) <= maxDepth {
			t.Errorf("%q is not shown as JSON", value)
		}
		if oneLine && bytes.ContainsAny(b, "\n\r") {
			t.Errorf("%q has more than a line", b)
		}
		back, version, err := parsePut(b, key)
		if err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		if version != "7" {
			t.Errorf("version %q", version)
		}
		if shown {
			if !same(t, back, value) {
				t.Errorf("%q came back as %q", value, back)
			}
			if !oneLine && !bytes.Equal(back, bytes.Trim(value, " \n\r\t")) {
				t.Errorf("the bytes %q came back as %q", value, back)
			}
		} else if !bytes.Equal(back, value) {
			t.Errorf("%q came back as %q", value, back)
		}
		var i struct {
			Metadata struct{ Key, KeyBase64, Namespace, Name string }
		}
		if err := json.Unmarshal(b, &i); err != nil {
			t.Fatal(err)
		}
		if m := i.Metadata; m.Namespace+m.Name != m.Key || strings.Contains(m.Name, "/") || m.Namespace != "" &&
			!strings.HasSuffix(m.Namespace, "/") {
			t.Errorf("%+v", m)
		}
		if got, err := base64.StdEncoding.DecodeString(i.Metadata.KeyBase64); err != nil ||
			utf8.Valid(key) != (len(got) == 0) || len(got) > 0 && !bytes.Equal(got, key) || len(got) == 0 &&
			i.Metadata.Key != string(key) {
			t.Errorf("%q came back as %+v", key, i.Metadata)
		}
	})
}

// A key in a path, however escaped, is that key or refused.
func FuzzPath(f *testing.F) {
	for _, p := range []string{
		"", "k", "a/b/", "/registry/pods/default/nginx", "a//b", "..", "a/../b", "%2e%2e/x", "%2F..%2f", "%00%ff",
		"%zz", "%", "a?b", "a#b", "\u20ac", "a;b", " ", "\xff",
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(objectsPath + text)
		if err != nil {
			return // net/http itself answers 400
		}
		to, err := parsePath(u)
		raw, _, _ := strings.Cut(text, "?")
		key, wrong := url.PathUnescape(raw)
		dots := false
		for element := range strings.SplitSeq(key, "/") {
			dots = dots || element == "." || element == ".."
		}
		if err != nil {
			if wrong == nil && !dots {
				t.Fatalf("%q is refused: %v", text, err)
			}
			return
		}
		if wrong != nil || dots || string(to.key) != key {
			t.Errorf("%q is the key %q", text, to.key)
		}
		if (to.kind == aCollection) != (key == "" || strings.HasSuffix(key, "/")) || to.kind == theOpenAPI {
			t.Errorf("%q is %d", text, to.kind)
		}
	})
}

// Bodies are read or refused, and whatever is read was in them.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"value":1}`, `{"metadata":{"resourceVersion":"5","key":"k"},"valueBase64":"AA=="}`,
		`{"metadata":null,"value":null}`, `[]`, `null`, `{"value"`,
		`{"preconditions":{"resourceVersion":"5"}}`, `{"dryRun":["All"]}`, `{"preconditions":{"uid":"x"}}`,
		`{"metadata":{"resourceVersion":""},"value":"` + "\xff" + `"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if value, version, err := parsePut(body, []byte("k")); err == nil {
			if _, err := paging.ParseVersion(version); err != nil || value == nil {
				t.Errorf("%q: value %q, version %q", body, value, version)
			}
		} else {
			wantBadRequest(t, err)
		}
		if version, err := parseDelete(body); err == nil {
			if _, err := paging.ParseVersion(version); err != nil {
				t.Errorf("%q: version %q", body, version)
			}
		} else {
			wantBadRequest(t, err)
		}
	})
}

func wantBadRequest(t *testing.T, err error) {
	t.Helper()
	st, ok := err.(*status) //nolint:errorlint // nothing wraps it
	if !ok || st.Code != http.StatusBadRequest {
		t.Errorf("%v", err)
	}
	if !utf8.Valid(st.json()) {
		t.Errorf("%q", st.json())
	}
}

// Whatever the query, each operation reads it or refuses it.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{
		"limit=5&continue=x", "watch", "watch=true&timeoutSeconds=99999999999",
		"resourceVersion=-1", "%zz", "a;b", "limit=1&limit=2", "sendInitialEvents=0",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, objectsPath, nil)
		r.URL.RawQuery = query
		for _, on := range []kind{aKey, aCollection, theLeases, aUser, theOpenAPI} {
			op, err := find(on, r)
			var o options
			if err == nil {
				err = op.parse(r, &o)
			}
			if err != nil {
				wantBadRequest(t, err)
			} else if o.limit < 0 || o.timeout < 0 || op.watch != o.watch {
				t.Errorf("%q: %+v", query, o)
			}
		}
	})
}
