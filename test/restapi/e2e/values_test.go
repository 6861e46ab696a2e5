package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
)

// value is a possible value of an object.
type value struct {
	name  string
	bytes []byte
	json  bool // is shown as JSON, otherwise as base64
}

func values() []value {
	binary := make([]byte, 1<<20)
	for i := range binary {
		binary[i] = byte(i * 7)
	}
	return []value{
		{"object", []byte(`{"kind":"Pod","metadata":{"name":"nginx"}}`), true},
		{"big numbers", []byte(`{"n":12345678901234567890,"f":1.10,"e":1e400}`), true},
		{"html", []byte(`"<a href='x'>&\u2028"`), true},
		{"spaces", []byte(`{ "a" : [ 1 ,2 ] }`), true},
		{"twice the same name", []byte(`{"a":1,"a":2}`), true},
		{"null", []byte(`null`), true},
		{"false", []byte(`false`), true},
		{"text", []byte(`hello`), false},
		{"two documents", []byte(`{} {}`), false},
		{"empty", []byte{}, false},
		{"invalid UTF-8", []byte{'"', 0xff, '"'}, false},
		{"NUL", []byte{0}, false},
		{"protobuf", []byte("k8s\x00\n\x0c\n\x02v1\x12\x06Secret"), false},
		{"1 MiB", binary, false},
		{"1 MiB of JSON", []byte(`{"long":"` + strings.Repeat("x", 1<<20) + `"}`), true},
	}
}

// TestValues writes values of every kind in every way, and reads them in every way, byte for byte. A write through one
// API is visible in the other.
func TestValues(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		for n, v := range values() {
			t.Run(v.name, func(t *testing.T) {
				put := func(kind, body string) func(key string) {
					return func(key string) {
						s.must(t, http.StatusCreated, request{
							method: http.MethodPut, url: s.url(key), kind: kind,
							body: body,
						})
					}
				}
				ways := map[string]func(key string){
					"etcd": func(key string) {
						if _, err := s.etcd.Put(t.Context(), key, string(v.bytes)); err != nil {
							t.Fatal(err)
						}
					},
					"base64": put("application/json", fmt.Sprintf(`{"valueBase64":%q}`,
						base64.StdEncoding.EncodeToString(v.bytes))),
					"stream": put("application/octet-stream", string(v.bytes)),
				}
				if v.json {
					ways["json"] = put("", `{"value":`+string(v.bytes)+`}`)
					ways["curl"] = put("application/x-www-form-urlencoded", ` { "value" : `+string(v.bytes)+` } `)
				}
				for way, write := range ways {
					key := fmt.Sprintf("/values/%d/%s", n, way)
					write(key)
					s.checkValue(t, key, v)
				}
			})
		}
	})
}

// checkValue reads an object through etcd's API, a get, a list and a watch.
func (s *store) checkValue(t *testing.T, key string, v value) {
	t.Helper()
	res, err := s.etcd.Get(t.Context(), key)
	if err != nil || len(res.Kvs) != 1 || !bytes.Equal(res.Kvs[0].Value, v.bytes) {
		t.Fatalf("%s through etcd's API: %v, %.300v", key, err, res)
	}
	check := func(way, raw string) {
		o := parse[item](t, raw)
		if (o.ValueBase64 == nil) != v.json || !bytes.Equal(o.bytes(), v.bytes) || v.json != (len(o.Value) > 0) {
			t.Errorf("%s of %s: %.300s, want the value %.300q", way, key, raw, v.bytes)
		}
		if o.Metadata.Key != key || o.revision() != res.Kvs[0].ModRevision ||
			revisionOf(o.Metadata.CreateRevision) != res.Kvs[0].CreateRevision {
			t.Errorf("%s: %+v, etcd's API has %v", way, o.Metadata, res.Kvs[0].ModRevision)
		}
	}
	check("get", s.must(t, http.StatusOK, request{url: s.url(key)}))
	list, err := semantics.GetList(t.Context(), s.client, s.url(key[:strings.LastIndex(key, "/")+1]), nil)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, i := range list.Items {
		if strings.HasSuffix(key, "/"+i.Name) {
			check("list", i.Raw)
			found++
		}
	}
	if found != 1 {
		t.Errorf("%s appears %d times in its list", key, found)
	}
	w := s.openWatch(t.Context(), t, s.url(key)+"?watch=true")
	defer w.Close()
	check("watch", next(t, w).Raw)
}

// TestKeys writes keys of every kind: the key is whatever follows the path.
func TestKeys(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		for key, path := range map[string]string{
			"/registry/pods/default/nginx": "%2Fregistry%2Fpods%2Fdefault%2Fnginx",
			"no-slash":                     "no-slash",
			"a//b":                         "a//b",
			"with space+plus?and#more%":    "with%20space+plus%3Fand%23more%25",
			"ünïcode/名前":                   "%C3%BCn%C3%AFcode/%E5%90%8D%E5%89%8D",
			"...":                          "...",
			"a/..b/c.":                     "a/..b/c.",
			"quote\"<&>\\":                 "quote%22%3C&%3E%5C",
			"control\n\x01":                "control%0A%01",
			"NUL\x00in":                    "NUL%00in",
		} {
			created := parse[item](t, s.must(t, http.StatusCreated, request{
				method: http.MethodPut, url: s.url(path),
				body: putJSON("1", ""),
			}))
			cut := strings.LastIndex(key, "/") + 1
			if m := created.Metadata; m.Key != key || m.Namespace != key[:cut] || m.Name != key[cut:] {
				t.Errorf("%s makes %+v, want the key %q", path, m, key)
			}
			res, err := s.etcd.Get(t.Context(), key)
			if err != nil || len(res.Kvs) != 1 || res.Kvs[0].ModRevision != created.revision() {
				t.Errorf("%q through etcd's API: %v %v", key, res, err)
			}
			s.must(t, http.StatusOK, request{url: s.url(path)})
		}
		// Keys that are not UTF-8 are also shown in base64, because two of them can look the same.
		const strange = "strange/\xff\xfe"
		if _, err := s.etcd.Put(t.Context(), strange, "1"); err != nil {
			t.Fatal(err)
		}
		list, err := semantics.GetList(t.Context(), s.client, s.url("strange/"), nil)
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%v %v", list, err)
		}
		for _, raw := range []string{list.Items[0].Raw, s.must(t, http.StatusOK,
			request{url: s.url("strange/%FF%FE")})} {
			if o := parse[item](t, raw); string(o.Metadata.KeyBase64) != strange || !json.Valid([]byte(raw)) {
				t.Errorf("%s, want keyBase64 %s", raw, base64.StdEncoding.EncodeToString([]byte(strange)))
			}
		}
	})
}

// TestLines checks that an event is one line, for readers in a shell, even if its value has several.
func TestLines(t *testing.T) {
	s := startSQLite(t)
	const value = "{\n  \"a\": \"x\",\n  \"b\": [\r\n1]\n}"
	s.must(t, http.StatusCreated, request{
		method: http.MethodPut, url: s.url("lines"), kind: "application/octet-stream",
		body: value,
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("lines")+"?watch=1&timeoutSeconds=5", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := 0
	for scan := bufio.NewScanner(res.Body); scan.Scan(); lines++ {
		var event struct {
			Type   string
			Object struct {
				Value struct {
					A string
					B []int
				}
			}
		}
		if err := json.Unmarshal(scan.Bytes(), &event); err != nil || event.Type != "ADDED" ||
			event.Object.Value.A != "x" || len(event.Object.Value.B) != 1 {
			t.Errorf("line %q: %v", scan.Bytes(), err)
		}
	}
	if lines != 1 {
		t.Errorf("%d lines, want one", lines)
	}
}

// TestTooLarge sends more than a request may contain.
func TestTooLarge(t *testing.T) {
	s := startSQLite(t, "--max-request-bytes", "65536")
	body := `"` + strings.Repeat("x", 70_000) + `"`
	s.refused(t, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", request{
		method: http.MethodPut,
		url:    s.url("a"), body: putJSON(body, ""),
	})
	s.refused(t, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", request{
		method: http.MethodPut,
		url:    s.url("a"), kind: "application/octet-stream", body: body,
	})
	s.refused(t, http.StatusNotFound, "NotFound", request{url: s.url("a")})
	s.must(t, http.StatusCreated, request{
		method: http.MethodPut, url: s.url("a"),
		body: putJSON(`"`+body[60_000:], ""),
	})
}
