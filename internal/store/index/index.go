package index

import (
	"sync"

	"github.com/sqlstore/sqlstore/backend"
)

// Index holds the newest live row of every key in key order, at one revision: that of the last published batch.
//
// With it, compares, gets, pages and counts need no database access. A start does not wait until it is complete. Until
// then, a key found in it is correct, and a key not found must be looked up in the database. Copying the tree takes
// O(1), and copies share its nodes. Copies made for lists are kept for a while under their revision, so that the next
// pages of a list are served from the same snapshot.
type Index struct {
	writing    sync.Mutex // held to change the tree; locked before mu
	mu         sync.RWMutex
	rev        int64
	compacted  int64
	epoch      int64 // of rev
	tree       *Tree
	complete   bool
	disabled   bool
	generation int                           // changes when loaders must start again
	deleted    map[string]struct{}           // deleted while loading; must not be loaded again
	applying   bool                          // a large batch: meanwhile leases may have keys that they lack in the tree
	leases     map[int64]map[string]struct{} // keys by lease, of the rows in the tree
	cache      valueCache
	snapshots  []*Snapshot // oldest first
	changeLogs             // empty while the index is not complete
	awaited    waiters
}

// New returns an empty index at clock. Its value cache holds up to cacheBytes bytes. A disabled index stays empty.
func New(clock backend.Clock, cacheBytes int64, disabled bool) *Index {
	x := &Index{
		rev: clock.Revision, compacted: clock.Compacted, epoch: clock.Epoch, disabled: disabled,
		cache: valueCache{max: cacheBytes},
	}
	x.empty()
	return x
}

// Reset empties the index and moves it to clock. It must be loaded again.
func (x *Index) Reset(clock backend.Clock) {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rev, x.compacted, x.epoch, x.complete = clock.Revision, clock.Compacted, clock.Epoch, false
	x.awaited.reach(x.rev)
	x.generation++
	x.empty()
}

func (x *Index) empty() {
	x.tree = NewTree()
	x.deleted = map[string]struct{}{}
	x.leases = map[int64]map[string]struct{}{}
	x.cache = valueCache{max: x.cache.max}
	x.retainSnapshots(func(*Snapshot) bool { return false })
	x.changeLogs = newChangeLogs(x.rev, x.cache.max)
}

// completed marks the index complete. Callers hold writing and mu.
func (x *Index) completed() {
	x.complete, x.deleted = true, nil
	x.changeLogs = newChangeLogs(x.rev, x.cache.max)
}

// Load adds rows read from the database, except for keys of which the index knows something newer. It returns false if
// the index was reset since its position had this generation.
func (x *Index) Load(generation int, rows []backend.Row) bool {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case generation != x.generation:
		return false
	case x.complete: // by another load; later deletes are not remembered
		return true
	}
	for i := range rows {
		key := KeyString(rows[i].Key)
		if _, ok := x.deleted[key]; ok {
			continue
		}
		if _, ok := x.tree.Get(key); ok {
			continue
		}
		x.set(NewBareItem(rows[i]))
	}
	return true
}

// Finish marks the index complete. It returns false if the index was reset since its position had this generation.
func (x *Index) Finish(generation int) bool {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if generation != x.generation {
		return false
	}
	if !x.complete {
		x.completed()
	}
	return true
}
