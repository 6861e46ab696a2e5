package store

import (
	"sort"
	"sync"
	"unsafe"

	"github.com/tidwall/btree"

	"github.com/sqlstore/sqlstore/backend"
)

// item is a row in the index. Everything but the cache bookkeeping is immutable; an evicted or reloaded value is a new
// item under the same key, so that whoever holds the old one is not disturbed.
type item struct {
	Row
	cached  bool   // Value is the row's value (else it must be fetched by the row's id)
	slot    int32  // place in the value cache, -1 when it is not there; guarded by index.mu
	touched uint32 // set by readers, cleared by the eviction hand; atomic
}

func newItem(r Row) *item { return &item{Row: r, cached: true, slot: -1} }

// keyString is key as a string without a copy; rows' keys never change.
func keyString(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

type tree = btree.Map[string, *item]

// index holds the newest live row of every key in key order, at one revision: that of the last published batch.
//
// It is what makes compares, gets, pages and counts cost no database access. Until it is complete (a start does not
// wait for it) a key that is found in it is right, and a key that is not found must be looked up in the database.
// Copies of the tree are made in O(1) and share its nodes; those made for lists are kept a while under their revision,
// so that the next pages of the list are served from the same snapshot.
type index struct {
	writing   sync.Mutex // whoever changes the tree holds it; before mu
	mu        sync.RWMutex
	rev       int64
	compacted int64
	epoch     int64 // that rev belongs to
	tree      *tree
	complete  bool
	disabled  bool
	resets    int                           // changes when those who load the index must start again
	gone      map[string]struct{}           // deleted while loading: not to be loaded again
	leases    map[int64]map[string]struct{} // keys by lease, of the rows in the tree
	cache     valueCache
	snapshots []*snapshot // oldest first
	awaited   waiters
}

func newIndex(clock backend.Clock, cacheBytes int64, disabled bool) *index {
	x := &index{
		rev: clock.Revision, compacted: clock.Compacted, epoch: clock.Epoch, disabled: disabled,
		cache: valueCache{max: cacheBytes},
	}
	x.empty()
	return x
}

// lookup returns the newest live row of key. known is false when only the database knows. Callers hold mu.
func (x *index) lookup(key []byte) (it *item, known bool) {
	it, ok := x.tree.Get(keyString(key))
	return it, ok || x.complete
}

// hasNewest says whether r is known to be its key's newest row.
func (x *index) hasNewest(r *Row) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	it, ok := x.tree.Get(keyString(r.Key))
	return ok && it.ID() == r.ID()
}

// whole says whether the index is complete.
func (x *index) whole() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.complete
}

// loading returns the number under which the index, as it is, is loaded.
func (x *index) loading() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.resets
}

// load adds rows read from the database, unless something newer is known of their keys; false when the index was reset
// since loading gave the number.
func (x *index) load(number int, rows []Row) bool {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if number != x.resets {
		return false
	}
	for i := range rows {
		key := keyString(rows[i].Key)
		if _, ok := x.gone[key]; ok {
			continue
		}
		if _, ok := x.tree.Get(key); ok {
			continue
		}
		x.set(&item{Row: rows[i], slot: -1})
	}
	return true
}

// finish declares the index complete; false when it was reset.
func (x *index) finish(number int) bool {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if number != x.resets {
		return false
	}
	x.complete, x.gone = true, nil
	return true
}

// reset empties the index: it is where the clock is, and to be loaded anew.
func (x *index) reset(clock backend.Clock) {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rev, x.compacted, x.epoch, x.complete = clock.Revision, clock.Compacted, clock.Epoch, false
	x.awaited.reach(x.rev)
	x.resets++
	x.empty()
}

func (x *index) empty() {
	x.tree = btree.NewMap[string, *item](0)
	x.gone = map[string]struct{}{}
	x.leases = map[int64]map[string]struct{}{}
	x.cache = valueCache{max: x.cache.max}
	x.keepSnapshots(func(*snapshot) bool { return false })
}

// warm replaces those of an epoch's items whose values the index has in memory by now: a snapshot keeps what it was
// made of.
func (x *index) warm(items []*item, epoch int64) (missing int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i, it := range items {
		if it == nil || it.cached {
			continue
		}
		// In another epoch another row may have the same id.
		if now, ok := x.tree.Get(keyString(it.Key)); ok && now.cached && now.ID() == it.ID() && x.epoch == epoch {
			items[i] = now
			continue
		}
		missing++
	}
	return missing
}

// keep caches the fetched values of an epoch's items as far as there is room: lists must not push out what gets use.
func (x *index) keep(items []*item, epoch int64) {
	if !x.writing.TryLock() {
		return
	}
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.epoch != epoch {
		return
	}
	kept := false
	for _, it := range items {
		if !x.cache.room(it) {
			break
		}
		old, ok := x.tree.Get(keyString(it.Key))
		if !ok || old.cached || old.ID() != it.ID() {
			continue
		}
		it.Key, it.slot = old.Key, -1
		x.tree.Set(keyString(old.Key), it)
		x.cache.add(it)
		kept = true
	}
	if n := len(x.snapshots); kept && n > 0 && x.snapshots[n-1].rev == x.rev {
		x.snapshots[n-1].tree.Store(x.tree.Copy()) // the same rows, with what was fetched for them
	}
}

// now returns the index as it is, its revision and its epoch, for a short look: the copy is not kept, so it pushes out
// none of those that lists go on from. Nil when the index is not complete.
func (x *index) now() (_ *tree, rev, epoch int64) {
	x.mu.RLock()
	snap, rev, epoch, complete := x.taken(x.rev), x.rev, x.epoch, x.complete
	x.mu.RUnlock()
	if snap != nil || !complete {
		return snap.keys(), rev, epoch
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.complete {
		return nil, x.rev, x.epoch // it was reset meanwhile
	}
	return x.tree.Copy(), x.rev, x.epoch
}

// fork returns a copy of the index that its caller may change, if the index is below revision, and the index's
// revision; ok is false when it is not complete. Behind a copy all that is written to the index copies parts of it,
// too.
func (x *index) fork(revision int64) (t *tree, rev int64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.complete && x.rev < revision {
		t = x.tree.Copy()
	}
	return t, x.rev, x.complete
}

// rank returns how many keys of t are below key.
func rank(t *tree, key string) int {
	return sort.Search(t.Len(), func(i int) bool {
		k, _, _ := t.GetAt(i)
		return k >= key
	})
}

// unknownSpan is the size assumed for a span whose number of keys only the database knows.
const unknownSpan = 1000

// within is about how many keys [key, end) has, 0 for a single one.
func (x *index) within(key, end []byte) int64 {
	if len(end) == 0 {
		return 0
	}
	sp := makeSpan(key, end)
	if sp.empty {
		return 0
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.complete {
		return unknownSpan
	}
	return countSpan(x.tree, sp)
}

// countSpan counts the keys of a span.
func countSpan(t *tree, s span) int64 {
	hi := t.Len()
	if !s.open {
		hi = rank(t, s.end)
	}
	return int64(max(0, hi-rank(t, s.start)))
}
