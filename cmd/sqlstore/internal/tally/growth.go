package tally

import (
	"cmp"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// Grown is how a prefix, kind or namespace differs between two revisions.
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

// Sized is what growth needs of a row.
type Sized struct {
	key            string
	revision, size int64
	names          []string // of its groups
}

// Growth counts how groups differ between two revisions, in several groupings.
type Growth struct {
	most   int // groups in a grouping, 0 for any number
	names  []func(key, value []byte) string
	groups []map[string]*Grown // by name, for each of names
}

// NewGrowth returns a Growth of groups that each of names names: of up to so many that differ, and then of [Others]; 0
// is any number.
func NewGrowth(most int, names ...func(key, value []byte) string) *Growth {
	g := &Growth{most: most, names: names}
	for range names {
		g.groups = append(g.groups, map[string]*Grown{})
	}
	return g
}

// Size returns what [Growth.Compare] needs of a row.
func (g *Growth) Size(r *backend.Row) *Sized {
	s := &Sized{key: string(r.Key), revision: r.ModRevision, size: r.Size()}
	for _, name := range g.names {
		s.names = append(s.names, name(r.Key, r.Value))
	}
	return s
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
	for i := range g.names {
		switch {
		case order < 0:
			g.group(i, old).add(-1, -old.size)
		case order > 0:
			g.group(i, now).add(1, now.size)
		case old.names[i] == now.names[i]:
			g.group(i, now).add(0, now.size-old.size)
		default: // as for a key that now holds an object of another kind
			g.group(i, old).add(-1, -old.size)
			g.group(i, now).add(1, now.size)
		}
	}
}

func (g *Growth) group(grouping int, s *Sized) *Grown {
	name := s.names[grouping]
	grown := g.groups[grouping][name]
	if others := g.groups[grouping][Others]; grown == nil && g.most > 0 {
		named := len(g.groups[grouping])
		if others != nil {
			named--
		}
		if named >= g.most || len(name) > longestName {
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
