package tally

import (
	"cmp"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// Grown is how a prefix, kind, namespace or field differs between two revisions.
type Grown struct {
	Name       string `json:"name"`
	NameBase64 string `json:"nameBase64,omitempty"` // if the name is not UTF-8
	// Keys is KeysAdded less KeysRemoved.
	Keys        int64 `json:"keys"`
	KeysAdded   int64 `json:"keysAdded"`
	KeysRemoved int64 `json:"keysRemoved"`
	// Bytes is BytesAdded less BytesRemoved. A key that became larger adds bytes, and one that became smaller removes
	// some.
	Bytes        int64 `json:"bytes"`
	BytesAdded   int64 `json:"bytesAdded"`
	BytesRemoved int64 `json:"bytesRemoved"`
}

func (g *Grown) add(keys, bytes int64) {
	g.Keys, g.Bytes = g.Keys+keys, g.Bytes+bytes
	g.KeysAdded, g.KeysRemoved = g.KeysAdded+max(keys, 0), g.KeysRemoved+max(-keys, 0)
	g.BytesAdded, g.BytesRemoved = g.BytesAdded+max(bytes, 0), g.BytesRemoved+max(-bytes, 0)
}

// Part is what a row adds to a group: bytes.
type Part struct {
	Name string
	Size int64
}

// Grouping returns the parts of a row, in order of their names, which differ.
type Grouping func(r *backend.Row) []Part

// Whole groups rows by name.
func Whole(name func(key, value []byte) string) Grouping {
	return func(r *backend.Row) []Part { return []Part{{name(r.Key, r.Value), r.Size()}} }
}

// ByField groups the bytes of rows by the fields of their objects, as [Fields] does: of a kind, or of all if it is "".
func ByField(kind string) Grouping {
	return func(r *backend.Row) []Part {
		of, parts := fieldsOf(r.Value)
		if kind != "" && kind != of {
			return nil
		}
		parts = append(parts, Part{Key, int64(len(r.Key))})
		slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Name, b.Name) })
		return parts
	}
}

// Sized is what growth needs of a row.
type Sized struct {
	key      string
	revision int64
	parts    [][]Part // for each grouping
}

// Growth counts how groups differ between two revisions, in several groupings.
type Growth struct {
	most      int // groups in a grouping, 0 for any number
	groupings []Grouping
	groups    []map[string]*Grown // by name, for each of groupings
}

// NewGrowth returns a Growth of groups of groupings: of up to so many that differ, and then of [Others]; 0 is any
// number.
func NewGrowth(most int, groupings ...Grouping) *Growth {
	g := &Growth{most: most, groupings: groupings}
	for range groupings {
		g.groups = append(g.groups, map[string]*Grown{})
	}
	return g
}

// Size returns what [Growth.Compare] needs of a row.
func (g *Growth) Size(r *backend.Row) *Sized {
	s := &Sized{key: string(r.Key), revision: r.ModRevision}
	for _, parts := range g.groupings {
		s.parts = append(s.parts, g.bounded(parts(r)))
	}
	return s
}

// bounded returns parts with short names if groups are bounded: many rows wait for the others.
func (g *Growth) bounded(parts []Part) []Part {
	if g.most == 0 || !slices.ContainsFunc(parts, func(p Part) bool { return len(p.Name) > longestName }) {
		return parts
	}
	out, others := parts[:0], Part{Name: Others}
	for _, p := range parts {
		if len(p.Name) > longestName || p.Name == Others {
			others.Size += p.Size
		} else {
			out = append(out, p)
		}
	}
	at, _ := slices.BinarySearchFunc(out, others, func(a, b Part) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Insert(out, at, others)
}

// Compare reads the rows at both revisions, each in key order until nil follows, and counts how they differ. It reads
// one row of each ahead. Errors: those of before and after.
func (g *Growth) Compare(before, after func() (*Sized, error)) error {
	old, err := before()
	if err != nil {
		return err
	}
	now, err := after()
	for err == nil && (old != nil || now != nil) {
		var order int
		switch {
		case old == nil:
			order = 1
		case now == nil:
			order = -1
		default:
			order = cmp.Compare(old.key, now.key)
		}
		g.difference(old, now, order)
		if order <= 0 {
			old, err = before()
		}
		if order >= 0 && err == nil {
			now, err = after()
		}
	}
	return err
}

// difference counts a key that was removed if order is negative, added if it is positive, and otherwise is in both.
func (g *Growth) difference(old, now *Sized, order int) {
	if order == 0 && old.revision == now.revision {
		return
	}
	for i := range g.groupings {
		var before, after []Part
		if order <= 0 {
			before = old.parts[i]
		}
		if order >= 0 {
			after = now.parts[i]
		}
		for len(before)+len(after) > 0 {
			switch {
			case len(after) == 0 || len(before) > 0 && before[0].Name < after[0].Name:
				g.group(i, before[0].Name).add(-1, -before[0].Size)
				before = before[1:]
			case len(before) == 0 || after[0].Name < before[0].Name:
				g.group(i, after[0].Name).add(1, after[0].Size)
				after = after[1:]
			default:
				g.group(i, after[0].Name).add(0, after[0].Size-before[0].Size)
				before, after = before[1:], after[1:]
			}
		}
	}
}

func (g *Growth) group(grouping int, name string) *Grown {
	grown := g.groups[grouping][name]
	if others := g.groups[grouping][Others]; grown == nil && g.most > 0 {
		named := len(g.groups[grouping])
		if others != nil {
			named--
		}
		if named >= g.most {
			name, grown = Others, others
		}
	}
	if grown == nil {
		grown = &Grown{Name: name, NameBase64: base64Of(name)}
		g.groups[grouping][name] = grown
	}
	return grown
}

// Largest returns the groups of a grouping that differ, those first that grew most in bytes, up to limit; 0 is all of
// them.
func (g *Growth) Largest(grouping, limit int) []Grown {
	all := []Grown{}
	for _, grown := range g.groups[grouping] {
		if grown.KeysAdded+grown.KeysRemoved+grown.BytesAdded+grown.BytesRemoved > 0 {
			all = append(all, *grown)
		}
	}
	slices.SortFunc(all, func(a, b Grown) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Name, b.Name))
	})
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all
}

// Pages returns a function that returns one row after the other, and nil at the end, of pages that next returns until
// more is false.
func Pages(next func() (page []*Sized, more bool, err error)) func() (*Sized, error) {
	var page []*Sized
	more := true
	return func() (*Sized, error) {
		for len(page) == 0 && more {
			var err error
			if page, more, err = next(); err != nil {
				return nil, err
			}
		}
		if len(page) == 0 {
			return nil, nil
		}
		first := page[0]
		page = page[1:]
		return first, nil
	}
}
