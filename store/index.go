package store

import (
	"sort"
	"sync"
	"time"
	"unsafe"

	"github.com/tidwall/btree"

	"github.com/sqlstore/sqlstore/backend"
)

// item is a row in the index. Everything but the residency bookkeeping is immutable; an evicted or reloaded value is a new
// item under the same key, so that whoever holds the old one is not disturbed.
type item struct {
	Row
	resident bool   // Value is the row's value (else it must be fetched by the row's id)
	slot     int32  // place among the residents, -1 when not one of them; guarded by index.mu
	touched  uint32 // set by readers, cleared by the eviction hand; atomic
}

func newItem(r Row) *item { return &item{Row: r, resident: true, slot: -1} }

// keyString is key as a string without a copy; rows' keys never change.
func keyString(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

type tree = btree.Map[string, *item]

// index holds the newest live row of every key in key order, at one revision: that of the last published batch.
//
// It is what makes compares, gets, pages and counts cost no database access. Until it is complete (a start does not wait
// for it) a key that is found in it is right, and a key that is not found must be looked up in the database. Copies of the
// tree are made in O(1) and share its nodes; those made for lists are kept a while under their revision, so that the next
// pages of the list are served from the same snapshot.
type index struct {
	mu        sync.RWMutex
	rev       int64
	compacted int64
	history   int64 // the incarnation that rev belongs to
	tree      *tree
	complete  bool
	disabled  bool
	resets    int                           // tells those who load the index that it is another
	gone      map[string]struct{}           // deleted while loading: not to be loaded again
	leases    map[int64]map[string]struct{} // keys by lease, of the rows in the tree
	residents residents
	snapshots []*snapshot // oldest first
	awaited   waiters
}

// snapshot is the index as it was at one revision.
type snapshot struct {
	rev   int64
	tree  *tree
	taken time.Time
	bytes int64 // applied since: what it may be keeping alive
}

const (
	snapshotMax = 8
	snapshotAge = time.Minute
)

func newIndex(clock backend.Clock, cacheBytes int64, disabled bool) *index {
	x := &index{rev: clock.Revision, compacted: clock.Compacted, history: clock.Incarnation, disabled: disabled, residents: residents{max: cacheBytes}}
	x.empty()
	return x
}

// lookup returns the newest live row of key. known is false when only the database can tell. Callers hold mu.
func (x *index) lookup(key []byte) (it *item, known bool) {
	it, ok := x.tree.Get(keyString(key))
	return it, ok || x.complete
}

// holds says whether r is known to be its key's newest row.
func (x *index) holds(r *Row) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	it, ok := x.tree.Get(keyString(r.Key))
	return ok && it.ID() == r.ID()
}

// apply publishes the rows of one committed batch.
func (x *index) apply(items []*item, rev, compacted int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var bytes int64
	if !x.disabled {
		for _, it := range items {
			bytes += int64(len(it.Key) + len(it.Value))
			if it.Deleted {
				x.remove(it.Key)
				continue
			}
			x.set(it)
		}
		x.residents.evict(x)
	}
	x.rev = max(x.rev, rev)
	if etcdCompacted(compacted) > etcdCompacted(x.compacted) {
		x.compacted = compacted
	}
	x.awaited.reach(x.rev)
	x.prune(bytes)
}

// set makes it the newest row of its key.
func (x *index) set(it *item) {
	key := keyString(it.Key)
	old, replaced := x.tree.Set(key, it)
	if !x.complete {
		delete(x.gone, key)
	}
	if replaced {
		x.detach(old, it.Lease)
		x.residents.replace(old, it)
	} else {
		x.residents.add(it)
	}
	if it.Lease != 0 {
		keys := x.leases[it.Lease]
		if keys == nil {
			keys = map[string]struct{}{}
			x.leases[it.Lease] = keys
		}
		keys[key] = struct{}{}
	}
}

func (x *index) remove(k []byte) {
	key := keyString(k)
	if !x.complete {
		x.gone[key] = struct{}{}
	}
	if old, ok := x.tree.Delete(key); ok {
		x.detach(old, 0)
		x.residents.remove(old)
	}
}

// detach forgets that old's key belongs to its lease, unless the key's new row keeps it.
func (x *index) detach(old *item, lease int64) {
	if old.Lease == 0 || old.Lease == lease {
		return
	}
	keys := x.leases[old.Lease]
	delete(keys, keyString(old.Key))
	if len(keys) == 0 {
		delete(x.leases, old.Lease)
	}
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

// load adds rows read from the database, unless something newer is known of their keys; false when the index was reset since
// loading gave the number.
func (x *index) load(number int, rows []Row) bool {
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
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rev, x.compacted, x.history, x.complete = clock.Revision, clock.Compacted, clock.Incarnation, false
	x.awaited.reach(x.rev)
	x.resets++
	x.empty()
}

func (x *index) empty() {
	x.tree = btree.NewMap[string, *item](0)
	x.gone = map[string]struct{}{}
	x.leases = map[int64]map[string]struct{}{}
	x.residents = residents{max: x.residents.max}
	x.snapshots = nil
}

// warm replaces those of a history's items whose values the index has in memory by now: a snapshot keeps what it was made of.
func (x *index) warm(items []*item, history int64) (missing int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i, it := range items {
		if it.resident {
			continue
		}
		// Of another history another row may have the same id.
		if now, ok := x.tree.Get(keyString(it.Key)); ok && now.resident && now.ID() == it.ID() && x.history == history {
			items[i] = now
			continue
		}
		missing++
	}
	return missing
}

// keep makes the fetched values of a history's items resident as far as there is room: lists must not push out what gets use.
func (x *index) keep(items []*item, history int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.history != history {
		return
	}
	kept := false
	for _, it := range items {
		if !x.residents.room(it) {
			break
		}
		old, ok := x.tree.Get(keyString(it.Key))
		if !ok || old.resident || old.ID() != it.ID() {
			continue
		}
		it.Key, it.slot = old.Key, -1
		x.tree.Set(keyString(old.Key), it)
		x.residents.add(it)
		kept = true
	}
	if n := len(x.snapshots); kept && n > 0 && x.snapshots[n-1].rev == x.rev {
		x.snapshots[n-1].tree = x.tree.Copy() // the same rows, with what was fetched for them
	}
}

// at returns a snapshot of the index at revision rev of a history, nil when there is none. A snapshot of the current revision is
// made.
func (x *index) at(rev, history int64) *tree {
	x.mu.RLock()
	t := x.taken(rev)
	could := rev == x.rev && x.complete
	same := x.history == history
	x.mu.RUnlock()
	if !same {
		return nil
	}
	if t != nil || !could {
		return t
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.history != history {
		return nil
	}
	if t := x.taken(rev); t != nil {
		return t
	}
	if rev != x.rev || !x.complete {
		return nil
	}
	if len(x.snapshots) == snapshotMax {
		x.snapshots = append(x.snapshots[:0], x.snapshots[1:]...)
	}
	snap := &snapshot{rev: rev, tree: x.tree.Copy(), taken: time.Now()}
	x.snapshots = append(x.snapshots, snap)
	return snap.tree
}

// now returns the index as it is, its revision and its history's incarnation, for a short look: the copy is not kept, so it pushes out
// none of those that lists go on from. Nil when the index is not complete.
func (x *index) now() (_ *tree, rev, history int64) {
	x.mu.RLock()
	t, rev, history, complete := x.taken(x.rev), x.rev, x.history, x.complete
	x.mu.RUnlock()
	if t != nil || !complete {
		return t, rev, history
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.complete {
		return nil, x.rev, x.history // it was reset meanwhile
	}
	return x.tree.Copy(), x.rev, x.history
}

func (x *index) taken(rev int64) *tree {
	for i := len(x.snapshots) - 1; i >= 0; i-- {
		if x.snapshots[i].rev == rev {
			return x.snapshots[i].tree
		}
	}
	return nil
}

// prune lets go of snapshots that are old, or behind which much was written.
func (x *index) prune(bytes int64) {
	if len(x.snapshots) == 0 {
		return
	}
	now := time.Now()
	kept := x.snapshots[:0]
	for _, s := range x.snapshots {
		s.bytes += bytes
		if now.Sub(s.taken) < snapshotAge && s.bytes < x.residents.max/4 && s.rev >= x.compacted {
			kept = append(kept, s)
		}
	}
	clear(x.snapshots[len(kept):])
	x.snapshots = kept
}

// rank returns how many keys of t are below key.
func rank(t *tree, key string) int {
	return sort.Search(t.Len(), func(i int) bool {
		k, _, _ := t.GetAt(i)
		return k >= key
	})
}

// countSpan counts the keys of a span.
func countSpan(t *tree, s span) int64 {
	hi := t.Len()
	if !s.open {
		hi = rank(t, s.end)
	}
	return int64(max(0, hi-rank(t, s.start)))
}
