package restapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/restapi"
)

// treeJSON is a level of the tree of keys as clients see it.
type treeJSON struct {
	Kind, APIVersion string

	Metadata struct {
		ResourceVersion, Continue string
		Keys                      int64
	}
	Items []struct {
		Prefix, PrefixBase64 string
		Keys                 int64
		Metadata             *metaJSON
	}
}

func (r *reply) tree() (t treeJSON) {
	r.t.Helper()
	if r.decode(&t); t.Kind != "ObjectTree" || t.APIVersion != "sqlstore/v1" || t.Items == nil {
		r.t.Fatalf("%.300s is not a tree", r.body)
	}
	return t
}

// entries shows a level's items: keys with their version, prefixes with the number of their keys.
func (t treeJSON) entries() string {
	var all []string
	for _, item := range t.Items {
		if m := item.Metadata; m != nil {
			all = append(all, fmt.Sprintf("%s@%s", m.Key, m.ResourceVersion))
			continue
		}
		all = append(all, fmt.Sprintf("%s:%d", item.Prefix, item.Keys))
	}
	return strings.Join(all, " ")
}

func TestTree(t *testing.T) {
	t.Parallel()
	s := serve(t, restapi.Options{})
	for _, key := range []string{"p", "p/a", "p/b/1", "p/b/2", "p/c", "q/1", "r\xff/1"} {
		s.write(key, "1") // 2 to 8
	}
	for path, want := range map[string]string{
		"":         "p@2 p/:4 q/:1 r\uFFFD/:1",
		"p":        "p@2 p/a@3 p/b/:2 p/c@6",
		"p/":       "p/a@3 p/b/:2 p/c@6",
		"p/b":      "p/b/1@4 p/b/2@5",
		"p/b/":     "p/b/1@4 p/b/2@5",
		"p%2Fb%2f": "p/b/1@4 p/b/2@5",
		"p/a/":     "",
	} {
		got := s.do("GET", "/v1/tree/"+path, "").want(200, "").tree()
		if got.entries() != want || got.Metadata.ResourceVersion != "8" {
			t.Errorf("%q: %s at %s, want %s", path, got.entries(), got.Metadata.ResourceVersion, want)
		}
	}
	root := s.do("GET", "/v1/tree/", "").want(200, "").tree()
	if last := root.Items[3]; last.PrefixBase64 != "cv8v" || root.Metadata.Keys != 7 {
		t.Errorf("%+v", root)
	}
	first := s.do("GET", "/v1/tree/p/?limit=2", "").want(200, "").tree()
	if first.entries() != "p/a@3 p/b/:2" || first.Metadata.Keys != 4 {
		t.Errorf("the first chunk: %+v", first)
	}
	s.write("p/0", "1")
	next := s.do("GET", "/v1/tree/p/?limit=2&continue="+first.Metadata.Continue, "").want(200, "").tree()
	if next.entries() != "p/c@6" || next.Metadata.Continue != "" || next.Metadata.ResourceVersion != "8" {
		t.Errorf("the second chunk: %+v", next)
	}
	for query, want := range map[string]string{
		"resourceVersion=8&resourceVersionMatch=Exact": "p/a@3 p/b/:2 p/c@6",
		"at=2100-01-01T00:00:00Z":                      "p/0@9 p/a@3 p/b/:2 p/c@6",
	} {
		if got := s.do("GET", "/v1/tree/p/?"+query, "").want(200, "").tree(); got.entries() != want {
			t.Errorf("%s: %s, want %s", query, got.entries(), want)
		}
	}
	s.do("GET", "/v1/tree/q/?continue="+first.Metadata.Continue, "").want(400, "BadRequest")
	for _, query := range []string{"watch=true", "sendInitialEvents=false", "history=true"} {
		s.do("GET", "/v1/tree/p/?"+query, "").want(400, "BadRequest")
	}
	s.do("PUT", "/v1/tree/p/", "{}").want(405, "MethodNotAllowed")
	compact(t, s, 9)
	s.do("GET", "/v1/tree/p/?resourceVersion=8&resourceVersionMatch=Exact", "").want(410, "Expired")
}
