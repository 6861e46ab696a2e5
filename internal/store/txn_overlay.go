package store

import (
	"bytes"
	"math"
	"slices"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

// difference is how the live keys of a batch differ from the committed ones, so that a count need not walk the overlay.
// It is brought up to date when a transaction counts, because most do not.
type difference struct {
	added, removed index.Tree
	rows           int // how many of the batch's rows it includes
}

// difference returns the difference after all rows so far.
func (e *evaluator) difference() *difference {
	d := &e.diff
	for _, it := range e.rows[d.rows:] {
		key := index.KeyString(it.Key)
		d.added.Delete(key)
		d.removed.Delete(key)
		switch now, was := e.live(key), e.base(key); {
		case now != nil && was == nil:
			d.added.Set(now)
		case now == nil && was != nil:
			d.removed.Set(was)
		}
	}
	e.scanned += len(e.rows) - d.rows
	d.rows = len(e.rows)
	return d
}

// changes finds the first change that the transaction under way made to a key, likewise.
type changes struct {
	first map[string]int // index in evaluator.undo
	of    int            // how many of these it includes
}

func (c *changes) reset() {
	if c.of > 0 {
		clear(c.first)
		c.of = 0
	}
}

// before returns the live row that key had before the transaction under way changed it, nil if there was none.
func (e *evaluator) before(key string) *index.Item {
	c := &e.changes
	if c.first == nil {
		c.first = map[string]int{}
	}
	for ; c.of < len(e.undo); c.of++ {
		if k := e.undo[c.of].key; !has(c.first, k) {
			c.first[k] = c.of
		}
	}
	i, changed := c.first[key]
	switch {
	case !changed:
		return nil
	case e.undo[i].was == nil:
		return e.base(key)
	case e.undo[i].was.Deleted:
		return nil
	}
	return e.undo[i].was
}

func has(m map[string]int, key string) bool {
	_, ok := m[key]
	return ok
}

// first returns live rows of [key, end) in key order: either all of them, or more is true and there are more than
// limit. Rows that it has to skip count as scanned by the transaction. The next call for a single key reuses the slice.
func (e *evaluator) first(key, end []byte, limit int) (items []*index.Item, more bool) {
	if len(end) == 0 {
		if it := e.live(index.KeyString(key)); it != nil {
			e.single[0] = it
			return e.single[:], false
		}
		return nil, false
	}
	sp := index.NewSpan(key, end)
	if sp.Empty {
		return nil, false
	}
	for step := limit + 1; ; step = min(2*step, math.MaxInt32) {
		changed, unread := e.overlay.Walk(sp, step)
		base, rest := e.walk(sp, step)
		e.scanned += len(changed) + len(base)
		var last []byte // what is beyond it has not been read from both
		if unread {
			last = changed[len(changed)-1].Key
		}
		if rest && (last == nil || bytes.Compare(base[len(base)-1].Key, last) < 0) {
			last = base[len(base)-1].Key
		}
		if last != nil {
			changed, base = until(changed, last), until(base, last)
		}
		walked, before := len(changed)+len(base), len(items)
		items = merge(items, base, changed)
		e.txnScanned += walked - (len(items) - before)
		if last == nil || len(items) > limit {
			return items, len(items) > limit
		}
		sp = sp.From(string(last) + "\x00")
	}
}

// walk returns committed rows of a span; see [index.Tree.Walk].
func (e *evaluator) walk(sp index.Span, limit int) (items []*index.Item, more bool) {
	if e.loaded != nil {
		return e.loaded.Walk(sp, limit)
	}
	return e.s.index.Walk(sp, limit)
}

// until returns the items up to the key last.
func until(items []*index.Item, last []byte) []*index.Item {
	n, found := slices.BinarySearchFunc(items, last, func(it *index.Item, key []byte) int {
		return bytes.Compare(it.Key, key)
	})
	if found {
		n++
	}
	return items[:n]
}

// merge appends to out the rows of base as changed leaves them, without those that it deletes.
func merge(out, base, changed []*index.Item) []*index.Item {
	if len(changed) == 0 {
		if out == nil {
			return base
		}
		return append(out, base...)
	}
	out = slices.Grow(out, len(base)+len(changed))
	for len(base) > 0 || len(changed) > 0 {
		c := 1
		if len(changed) == 0 {
			c = -1
		} else if len(base) > 0 {
			c = bytes.Compare(base[0].Key, changed[0].Key)
		}
		if c < 0 {
			out, base = append(out, base[0]), base[1:]
			continue
		}
		if c == 0 {
			base = base[1:]
		}
		if !changed[0].Deleted {
			out = append(out, changed[0])
		}
		changed = changed[1:]
	}
	return out
}
