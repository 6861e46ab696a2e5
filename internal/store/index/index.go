package index

import (
	"sync"

	"github.com/sqlstore/sqlstore/backend"
)

// Index holds the newest live row of every key in key order, at one revision: that of the last published batch.
//
// It is what makes compares, gets, pages and counts cost no database access. Until it is complete (a start does not
// wait for it) a key that is found in it is right, and a key that is not found must be looked up in the database.
// Copies of the tree are made in O(1) and share its nodes; those made for lists are kept a while under their revision,
// so that the next pages of the list are served from the same snapshot.
type Index struct {
	writing    sync.Mutex // whoever changes the tree holds it; before mu
	mu         sync.RWMutex
	rev        int64
	compacted  int64
	epoch      int64 // that rev belongs to
	tree       *Tree
	complete   bool
	disabled   bool
	generation int                           // changes when those who load the index must start again
	gone       map[string]struct{}           // deleted while loading: not to be loaded again
	leases     map[int64]map[string]struct{} // keys by lease, of the rows in the tree
	cache      valueCache
	snapshots  []*Snapshot // oldest first
	awaited    waiters
}

// New returns an empty index at clock, of which values may take cacheBytes. A disabled one stays empty.
func New(clock backend.Clock, cacheBytes int64, disabled bool) *Index {
	x := &Index{
		rev: clock.Revision, compacted: clock.Compacted, epoch: clock.Epoch, disabled: disabled,
		cache: valueCache{max: cacheBytes},
	}
	x.empty()
	return x
}

// Reset empties the index: it is where the clock is, and to be loaded anew.
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
	x.gone = map[string]struct{}{}
	x.leases = map[int64]map[string]struct{}{}
	x.cache = valueCache{max: x.cache.max}
	x.keepSnapshots(func(*Snapshot) bool { return false })
}

// Load adds rows read from the database, unless something newer is known of their keys; false when the index was reset
// since its position had the generation.
func (x *Index) Load(generation int, rows []backend.Row) bool {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if generation != x.generation {
		return false
	}
	for i := range rows {
		key := KeyString(rows[i].Key)
		if _, ok := x.gone[key]; ok {
			continue
		}
		if _, ok := x.tree.Get(key); ok {
			continue
		}
		x.set(NewBareItem(rows[i]))
	}
	return true
}

// Finish declares the index complete; false when it was reset since its position had the generation.
func (x *Index) Finish(generation int) bool {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if generation != x.generation {
		return false
	}
	x.complete, x.gone = true, nil
	return true
}
