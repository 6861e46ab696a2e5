package store

import "github.com/sqlstore/sqlstore/backend"

// unknownSpan is the size assumed for a span whose number of keys only the database knows.
const unknownSpan = 1000

// Get returns the newest live row of key, nil when there is none or, with known false, when only the database knows.
func (x *index) Get(key string) (it *item, known bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	it, ok := x.tree.Get(key)
	return it, ok || x.complete
}

// Look is Get with the clock at which the answer holds.
func (x *index) Look(key string) (it *item, known bool, clock backend.Clock) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	it, ok := x.tree.Get(key)
	return it, ok || x.complete, x.clock()
}

// HasNewest says whether r is known to be its key's newest row.
func (x *index) HasNewest(r *Row) bool {
	it, _ := x.Get(keyString(r.Key))
	return it != nil && it.ID() == r.ID()
}

// View calls f with the rows that are there, while nothing can change them; complete says that they are all. f must
// neither keep nor change the tree, nor use the index.
func (x *index) View(f func(rows *tree, complete bool)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	f(x.tree, x.complete)
}

// Walk returns up to limit of the rows of a span that are there, in key order; more says that there are more.
func (x *index) Walk(sp span, limit int) (items []*item, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tree.Walk(sp, limit)
}

// Few returns the rows of a span at a revision, <= 0 for the current one, and the clock at which they are that. ok is
// false when they are more than limit, when the index is elsewhere or not complete, and when it has a snapshot of the
// revision: that was made for a longer list, of which this may be the next page.
func (x *index) Few(sp span, revision int64, limit int) (items []*item, clock backend.Clock, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.serves(revision) || x.taken(x.rev) != nil {
		return nil, x.clock(), false
	}
	items, more := x.tree.Walk(sp, limit)
	return items, x.clock(), !more
}

// Count returns how many rows of a span are there.
func (x *index) Count(sp span) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tree.Count(sp)
}

// CountAt counts the keys of a span at a revision, <= 0 for the current one, and returns the clock at which there are as
// many. ok is false when the index is elsewhere or not complete.
func (x *index) CountAt(sp span, revision int64) (n int64, clock backend.Clock, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.serves(revision) {
		return 0, x.clock(), false
	}
	return x.tree.Count(sp), x.clock(), true
}

// serves says whether the index has all rows of a revision, <= 0 for the current one. Callers hold mu.
func (x *index) serves(revision int64) bool {
	return x.complete && (revision <= 0 || revision == x.rev)
}

// Within returns about how many keys [key, end) has, 0 for a single one, in etcd's convention.
func (x *index) Within(key, end []byte) int64 {
	if len(end) == 0 {
		return 0
	}
	sp := makeSpan(key, end)
	if sp.Empty {
		return 0
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.complete {
		return unknownSpan
	}
	return x.tree.Count(sp)
}
