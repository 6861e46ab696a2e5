package tally

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Fields add up to what the other groupings count, and a deletion writes its key.
func TestFields(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"managedFields":[{}]},"spec":{}}`
	const node = `{"apiVersion":"v1","kind":"Node","spec":1}`
	fields, kinds := NewFields(), NewTop(ByKind)
	for _, r := range []*backend.Row{
		row("/pods/a", pod), row("/nodes/a", node), row("/s", "k8s:enc:kms:v2:k:1"), row("/x", "1"),
	} {
		for _, c := range []interface {
			Live(r *backend.Row)
			Written(c *backend.Change)
		}{fields, kinds} {
			c.Live(r)
			c.Written(&backend.Change{Row: *r})
			c.Written(&backend.Change{Row: backend.Row{Key: r.Key, Deleted: true}, Prev: r})
		}
	}
	for _, kind := range kinds.Largest(Sorts["bytes"], 0) {
		var sum Group
		for _, g := range fields.Largest(kind.Name, Sorts["bytes"], 0) {
			sum.Bytes, sum.Written, sum.Deletes = sum.Bytes+g.Bytes, sum.Written+g.Written, sum.Deletes+g.Deletes
		}
		if sum.Bytes != kind.Bytes || sum.Written != kind.Written || sum.Deletes != 1 {
			t.Errorf("the fields of %+v have %+v", kind, sum)
		}
	}
	if all := fields.Kinds(); !slices.Equal(all, []string{"(encrypted)", Other, "v1 Node", "v1 Pod"}) {
		t.Errorf("kinds %q", all)
	}
	want := map[string]int64{"spec": 10 + 9, "metadata.managedFields": 20, NotReadable: 19, Key: 7 + 8 + 2 + 2}
	for _, g := range fields.Largest("", Sorts["bytes"], 0) {
		if bytes, ok := want[g.Name]; ok && bytes != g.Bytes {
			t.Errorf("%s has %d bytes, want %d", g.Name, g.Bytes, bytes)
		}
	}
}

// What is superseded leaves nothing of what was counted for it.
func TestSuperseded(t *testing.T) {
	fields, kinds := NewFields(), NewTop(ByKind)
	for _, c := range []interface {
		Live(r *backend.Row)
		Superseded(r *backend.Row)
		Largest(of string, by func(*Group) int64, limit int) []Group
	}{fields, ofAny{kinds}} {
		old := row("/pods/a", `{"apiVersion":"v1","kind":"Pod","spec":{"a":1},"status":{}}`)
		c.Live(old)
		c.Superseded(old)
		c.Live(row("/pods/a", `{"apiVersion":"v1","kind":"Pod","spec":{}}`))
		for _, g := range c.Largest("", Sorts["bytes"], 0) {
			want := int64(1)
			if g.Name == "status" {
				want = 0
			}
			if g.Keys != want || (g.Bytes > 0) != (want > 0) || g.Bytes < 0 {
				t.Errorf("%T: %+v", c, g)
			}
		}
	}
}

// ofAny lists the groups of a Top as Fields lists those of all kinds.
type ofAny struct{ *Top }

func (o ofAny) Largest(_ string, by func(*Group) int64, limit int) []Group {
	return o.Top.Largest(by, limit)
}

// Whatever a store holds, the names of groups are few and short.
func TestBounds(t *testing.T) {
	fields := NewFields()
	for i := range 2000 {
		fields.Live(row("k", fmt.Sprintf(`{"apiVersion":"v%d","kind":"K","a":1,"b":1,"c":1,"d":1}`, i)))
	}
	fields.Live(row("k", fmt.Sprintf(`{"apiVersion":"v1","kind":%q}`, strings.Repeat("K", 1<<20))))
	if n := len(fields.groups); n > mostFields+1 {
		t.Errorf("%d groups", n)
	}
	for at := range fields.groups {
		if len(at.kind) > longestName {
			t.Errorf("a kind of %d bytes", len(at.kind))
		}
	}
	if others := fields.Largest(Others, Sorts["keys"], 0); len(others) != 1 || others[0].Keys < 2000 {
		t.Errorf("others: %+v", others)
	}
	name := Bounded(2, func(key, _ []byte) string { return string(key) })
	for key, want := range map[string]string{strings.Repeat("x", longestName+1): Others} {
		if got := name([]byte(key), nil); got != want {
			t.Errorf("%.10s belongs to %.10s", key, got)
		}
	}
	for _, key := range []string{"a", "b", "c", "a"} {
		want := key
		if key == "c" {
			want = Others
		}
		if got := name([]byte(key), nil); got != want {
			t.Errorf("%s belongs to %s, want %s", key, got, want)
		}
	}
}
