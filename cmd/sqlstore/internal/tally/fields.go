package tally

import (
	"cmp"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
)

// Names of what an entry has besides the fields of an object. Together they are all its bytes.
const (
	Key         = "(key)"
	NotReadable = "(not readable)"
)

const (
	// Others is the group of what belongs to none of a bounded number of groups.
	Others = "(others)"
	// longestName is how many bytes the name of a group has if groups are bounded.
	longestName = 1024
)

// Bounded returns a name function with at most limit names. Others, and long names, belong to [Others].
func Bounded(limit int, name func(key, value []byte) string) func(key, value []byte) string {
	seen := map[string]struct{}{}
	return func(key, value []byte) string {
		n := name(key, value)
		if _, ok := seen[n]; ok {
			return n
		}
		if len(seen) >= limit || len(n) > longestName {
			return Others
		}
		seen[n] = struct{}{}
		return n
	}
}

// mostFields bounds the fields of all kinds.
const mostFields = 10_000

// Fields counts by field of the objects of each kind. Its memory is bounded: fields beyond a number belong to [Others].
type Fields struct{ groups map[kindField]*Group }

type kindField struct{ kind, field string }

// NewFields returns a Fields that has counted nothing.
func NewFields() *Fields { return &Fields{map[kindField]*Group{}} }

func (f *Fields) group(kind, field string) *Group {
	at := kindField{kind, field}
	g := f.groups[at]
	if g == nil && (len(f.groups) >= mostFields || len(kind) > longestName) {
		at = kindField{Others, Others}
		g = f.groups[at]
	}
	if g == nil {
		g = &Group{Name: at.field, NameBase64: base64Of(at.field)}
		f.groups[at] = g
	}
	return g
}

// fieldsOf returns the kind of a value, and the bytes of its fields.
func fieldsOf(value []byte) (kind string, parts []Part) {
	apiVersion, kind, sizes, ok := kubeobject.SizesOf(value)
	if !ok {
		return ByKind(nil, value), []Part{{NotReadable, int64(len(value))}}
	}
	parts = make([]Part, 0, len(sizes)+1)
	for field, size := range sizes {
		parts = append(parts, Part{field, size})
	}
	return apiVersion + " " + kind, parts
}

// add calls count with the groups of the parts of a row.
func (f *Fields) add(key, value []byte, count func(g *Group, size int64)) {
	kind, parts := fieldsOf(value)
	for _, p := range append(parts, Part{Key, int64(len(key))}) {
		count(f.group(kind, p.Name), p.Size)
	}
}

// Live counts a row that exists.
func (f *Fields) Live(r *backend.Row) {
	f.add(r.Key, r.Value, func(g *Group, size int64) { g.Keys, g.Bytes = g.Keys+1, g.Bytes+size })
}

// Superseded takes back what Live counted for a row.
func (f *Fields) Superseded(r *backend.Row) {
	f.add(r.Key, r.Value, func(g *Group, size int64) { g.Keys, g.Bytes = g.Keys-1, g.Bytes-size })
}

// Written counts a change. A deletion writes the key.
func (f *Fields) Written(c *backend.Change) {
	if !c.Row.Deleted {
		f.add(c.Row.Key, c.Row.Value, func(g *Group, size int64) { g.Writes, g.Written = g.Writes+1, g.Written+size })
		return
	}
	kind := Other
	if c.Prev != nil {
		kind = ByKind(nil, c.Prev.Value)
	}
	g := f.group(kind, Key)
	g.Deletes, g.Written = g.Deletes+1, g.Written+int64(len(c.Row.Key))
}

// Kinds returns the kinds that were counted, in order.
func (f *Fields) Kinds() []string {
	var all []string
	for at := range f.groups {
		all = append(all, at.kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Largest returns the fields of a kind, or of all if it is empty, with the most of what by returns, up to limit; 0 is
// all of them.
func (f *Fields) Largest(kind string, by func(*Group) int64, limit int) []Group {
	sums := map[string]*Group{}
	for at, g := range f.groups {
		if kind != "" && kind != at.kind {
			continue
		}
		sum := sums[g.Name]
		if sum == nil {
			sum = &Group{Name: g.Name, NameBase64: g.NameBase64}
			sums[g.Name] = sum
		}
		sum.Keys, sum.Bytes, sum.Writes = sum.Keys+g.Keys, sum.Bytes+g.Bytes, sum.Writes+g.Writes
		sum.Deletes, sum.Written = sum.Deletes+g.Deletes, sum.Written+g.Written
	}
	return largest(sums, by, limit)
}

// largest sorts groups.
func largest(groups map[string]*Group, by func(*Group) int64, limit int) []Group {
	all := make([]Group, 0, len(groups))
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(by(&b), by(&a)), cmp.Compare(b.Written, a.Written), cmp.Compare(a.Name, b.Name))
	})
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all
}
