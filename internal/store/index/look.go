package index

import "github.com/sqlstore/sqlstore/backend"

// UnknownSpan is the size assumed for a span whose number of keys only the database knows.
const UnknownSpan = 1000

// Get returns the newest live row of key, nil when there is none or, with known false, when only the database knows.
func (x *Index) Get(key string) (it *Item, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	it, ok := x.tree.Get(key)
	return it, ok || x.complete
}

// Look is Get with the clock at which the answer holds.
func (x *Index) Look(key string) (it *Item, known bool, clock backend.Clock) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	it, ok := x.tree.Get(key)
	return it, ok || x.complete, x.clock()
}

// HasNewest says whether r is known to be its key's newest row.
func (x *Index) HasNewest(r *backend.Row) bool {
	it, _ := x.Get(KeyString(r.Key))
	return it != nil && it.ID() == r.ID()
}

// View calls f with the rows that are there, while nothing can change them; complete says that they are all. f must
// neither keep nor change the tree, nor use the index.
func (x *Index) View(f func(rows *Tree, complete bool)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	f(x.tree, x.complete)
}

// Walk returns up to limit of the rows of a span that are there, in key order; more says that there are more.
func (x *Index) Walk(sp Span, limit int) (items []*Item, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tree.Walk(sp, limit)
}

// Few returns the rows of a span at a revision, <= 0 for the current one, and the clock at which they are that. ok is
// false when they are more than limit, when the index is elsewhere or not complete, and when it has a snapshot of the
// revision: that was made for a longer list, of which this may be the next page.
func (x *Index) Few(sp Span, revision int64, limit int) (items []*Item, clock backend.Clock, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.serves(revision) || x.taken(x.rev) != nil {
		return nil, x.clock(), false
	}
	items, more := x.tree.Walk(sp, limit)
	return items, x.clock(), !more
}

// Count returns how many rows of a span are there.
func (x *Index) Count(sp Span) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tree.Count(sp)
}

// CountAt counts the keys of a span at a revision, <= 0 for the current one, and returns the clock at which it counted.
// ok is false when the index is elsewhere or not complete.
func (x *Index) CountAt(sp Span, revision int64) (n int64, clock backend.Clock, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.serves(revision) {
		return 0, x.clock(), false
	}
	return x.tree.Count(sp), x.clock(), true
}

// serves says whether the index has all rows of a revision, <= 0 for the current one. Callers hold mu.
func (x *Index) serves(revision int64) bool {
	return x.complete && (revision <= 0 || revision == x.rev)
}

// Within returns about how many keys [key, end) has, 0 for a single one, in etcd's convention.
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
