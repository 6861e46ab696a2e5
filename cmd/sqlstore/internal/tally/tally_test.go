package tally

import (
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

func row(key, value string) *backend.Row {
	return &backend.Row{Key: []byte(key), Value: []byte(value)}
}

// A listing counts what continues after the next slash.
func TestListing(t *testing.T) {
	keys := []string{"/r", "/r-x/a", "/r/a/1", "/r/a/2", "/r/b", "/r/b/1", "/r//1", "x"}
	slices.Sort(keys)
	for prefix, want := range map[string][]Entry{
		"": {{"/r", "", 1, 3}, {"/r-x/", "", 1, 7}, {"/r/", "", 5, 30}, {"x", "", 1, 2}},
		"/r": {
			{"/r", "", 1, 3},
			{"/r-x/", "", 1, 7},
			{"/r//", "", 1, 6},
			{"/r/a/", "", 2, 14},
			{"/r/b", "", 1, 5},
			{"/r/b/", "", 1, 7},
		},
		"/r/a": {{"/r/a/1", "", 1, 7}, {"/r/a/2", "", 1, 7}},
	} {
		l := Listing{Prefix: prefix}
		for _, key := range keys {
			if len(key) >= len(prefix) && key[:len(prefix)] == prefix {
				l.Add(row(key, "v"))
			}
		}
		for i := range want {
			if prefix == "" && want[i].Name == "/r/" { // the sizes of five keys
				want[i].Bytes = l.Entries[i].Bytes
			}
		}
		if !slices.Equal(l.Entries, want) {
			t.Errorf("%q: %v, want %v", prefix, l.Entries, want)
		}
	}
}

// Groups count what exists and what was written; a deletion belongs to the kind of what it deleted.
func TestTop(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ns"}}`
	const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`
	for name, c := range map[string]struct {
		by   func(key, value []byte) string
		want []string
	}{
		"kind":      {ByKind, []string{"v1 Pod", "(encrypted)", "(no Kubernetes object)", "v1 Node"}},
		"namespace": {ByNamespace, []string{"ns", "(encrypted)", "(no Kubernetes object)", "(no namespace)"}},
		"prefix":    {ByPrefix("/r", 1), []string{"/r/pods/", "/r/secrets/", "/r/x", "/r/nodes/"}},
	} {
		t.Run(name, func(t *testing.T) {
			top := NewTop(c.by)
			for i, r := range []*backend.Row{
				row("/r/pods/a", pod), row("/r/pods/b", pod), row("/r/secrets/s", "k8s:enc:kms:v2:k:1"),
				row("/r/x", "1"),
			} {
				if i != 1 {
					top.Live(r)
				}
				top.Written(&backend.Change{Row: *r})
			}
			top.Written(&backend.Change{
				Row:  backend.Row{Key: []byte("/r/pods/b"), Deleted: true},
				Prev: row("/r/pods/b", pod),
			})
			top.Written(&backend.Change{
				Row:  backend.Row{Key: []byte("/r/nodes/n"), Deleted: true},
				Prev: row("/r/nodes/n", node),
			})
			var names []string
			for _, g := range top.Largest(Sorts["bytes"], 0) {
				names = append(names, g.Name)
			}
			if !slices.Equal(names, c.want) {
				t.Errorf("%q, want %q", names, c.want)
			}
			most := top.Largest(Sorts["writes"], 1)
			if len(most) != 1 || most[0].Name != c.want[0] || most[0].Keys != 1 || most[0].Writes != 2 ||
				most[0].Deletes != 1 {
				t.Errorf("most writes: %+v", most)
			}
		})
	}
}
