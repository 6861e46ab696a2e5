package index

import "github.com/sqlstore/sqlstore/backend"

// UnknownSpan is the number of keys assumed for a span if only the database knows it.
const UnknownSpan = 1000

// Get returns the newest live row of key. nil means that the key does not exist if known is true; otherwise only the
// database knows.
func (x *Index) Get(key string) (it *Item, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	it, ok := x.tree.Get(key)
	return it, ok || x.complete
}

// GetWithClock is Get with the clock at which the answer holds.
func (x *Index) GetWithClock(key string) (it *Item, known bool, clock backend.Clock) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	it, ok := x.tree.Get(key)
	return it, ok || x.complete, x.clock()
}

// HasNewest reports whether the index has r as the newest row of its key.
func (x *Index) HasNewest(r *backend.Row) bool {
	it, _ := x.Get(KeyString(r.Key))
	return it != nil && it.ID() == r.ID()
}

// View calls f with the rows in the index while nothing can change them. complete is true if they are all live rows. f
// must neither keep nor change the tree, nor call the index.
func (x *Index) View(f func(rows *Tree, complete bool)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	f(x.tree, x.complete)
}

// Walk returns up to limit rows of a span that are in the index, in key order. more is true if the index has further
// ones.
func (x *Index) Walk(sp Span, limit int) (items []*Item, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tree.Walk(sp, limit)
}

// WalkAt returns the rows of a span at a revision (<= 0: the current one), and the clock at which they hold. ok is
// false if there are more than limit rows, if the index is at another revision or not complete, or if it has a snapshot
// of the revision: that was made for a longer list, and this may be the list's next page.
func (x *Index) WalkAt(sp Span, revision int64, limit int) (items []*Item, clock backend.Clock, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.serves(revision) || x.snapshotAt(x.rev) != nil {
		return nil, x.clock(), false
	}
	items, more := x.tree.Walk(sp, limit)
	return items, x.clock(), !more
}

// Count returns how many rows of a span are in the index.
func (x *Index) Count(sp Span) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tree.Count(sp)
}

// CountAt counts the keys of a span at a revision (<= 0: the current one), and returns the clock at which it counted.
// ok is false if the index is at another revision or not complete.
func (x *Index) CountAt(sp Span, revision int64) (n int64, clock backend.Clock, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.serves(revision) {
		return 0, x.clock(), false
	}
	return x.tree.Count(sp), x.clock(), true
}

// serves reports whether the index has all rows of a revision (<= 0: the current one). Callers hold mu.
func (x *Index) serves(revision int64) bool {
	return x.complete && (revision <= 0 || revision == x.rev)
}

// Within returns the approximate number of keys in [key, end), given in etcd's convention; 0 for a single key.
func (x *Index) Within(key, end []byte) int64 {
	if len(end) == 0 {
		return 0
	}
	sp := NewSpan(key, end)
	if sp.Empty {
		return 0
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.complete {
		return UnknownSpan
	}
	return x.tree.Count(sp)
}
