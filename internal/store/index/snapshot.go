package index

import (
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Snapshot is the index as it was at one revision. The index drops it when it is old or may keep too much memory alive.
// A reader that continues from it then reads the rest from the database.
type Snapshot struct {
	rev       int64
	tree      atomic.Pointer[Tree] // nil once the index has dropped it
	users     atomic.Int32         // streams that continue from it
	createdAt time.Time
	bytes     int64 // applied since it was created: what it may keep alive
}

const (
	// snapshotMax bounds the snapshots from which no stream continues at the moment. snapshotAge is how long they are
	// kept.
	snapshotMax = 8
	snapshotAge = time.Minute
	// snapshotUsed bounds all snapshots, those in use included: each may keep a whole tree's nodes alive.
	snapshotUsed = 64
	// snapshotBytes is how many bytes are always applied before a snapshot is dropped for its size. The limit is a
	// quarter of the value cache, which is too little if the cache is small.
	snapshotBytes = 1 << 20
)

// Tree returns the rows, or nil if the index has dropped the snapshot or s is nil.
func (s *Snapshot) Tree() *Tree {
	if s == nil {
		return nil
	}
	return s.tree.Load()
}

// End ends the use of the snapshot by a stream.
func (s *Snapshot) End() {
	if s != nil {
		s.users.Add(-1)
	}
}

// At returns the clock of the index and, at the same moment, the tree of the snapshot at revision rev, or nil if there
// is none. A revision <= 0 means the current one. A snapshot of the current revision is made if needed. The index may
// drop the snapshot later, but a tree the caller holds stays valid.
func (x *Index) At(rev int64) (backend.Clock, *Tree) {
	var keys *Tree
	clock, _ := x.snapshot(rev, func(s *Snapshot) { keys = s.Tree() })
	return clock, keys
}

// Pin is At for a stream, which continues from the snapshot until it calls End.
func (x *Index) Pin(rev int64) (backend.Clock, *Snapshot) {
	return x.snapshot(rev, func(s *Snapshot) { s.users.Add(1) })
}

// Now returns the current tree and clock for a short read. The copy is not kept, so it does not displace snapshots from
// which lists continue. The tree is nil if the index is not complete.
func (x *Index) Now() (*Tree, backend.Clock) {
	x.mu.RLock()
	rows, clock, complete := x.snapshotAt(x.rev).Tree(), x.clock(), x.complete
	x.mu.RUnlock()
	if rows != nil || !complete {
		return rows, clock
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.complete {
		return nil, x.clock() // reset after the first lookup
	}
	return x.tree.copy(), x.clock()
}

// Fork returns a copy of the tree that the caller may change, if the index is below revision, and the index's revision.
// ok is false if the index is not complete. After a fork, writes to the index copy the nodes they change, too.
func (x *Index) Fork(revision int64) (t *Tree, rev int64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.complete && x.rev < revision {
		t = x.tree.copy()
	}
	return t, x.rev, x.complete
}

// snapshot finds or makes the snapshot at rev and calls use with it under the lock, because the index may drop it as
// soon as the lock is released.
func (x *Index) snapshot(rev int64, use func(*Snapshot)) (backend.Clock, *Snapshot) {
	x.mu.RLock()
	clock, snap, could := x.lookupSnapshot(rev)
	if snap != nil {
		use(snap)
	}
	x.mu.RUnlock()
	if snap != nil || !could {
		return clock, snap
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if clock, snap, could = x.lookupSnapshot(rev); snap == nil && could {
		x.evictSnapshots()
		snap = &Snapshot{rev: x.rev, createdAt: time.Now()}
		snap.tree.Store(x.tree.copy())
		x.snapshots = append(x.snapshots, snap)
	}
	if snap != nil {
		use(snap)
	}
	return clock, snap
}

// lookupSnapshot returns the clock, the snapshot at rev if there is one, and whether one can be made. Callers hold mu.
func (x *Index) lookupSnapshot(rev int64) (clock backend.Clock, snap *Snapshot, could bool) {
	clock = x.clock()
	if rev <= 0 {
		rev = x.rev
	}
	return clock, x.snapshotAt(rev), rev == x.rev && x.complete
}

func (x *Index) snapshotAt(rev int64) *Snapshot {
	for i := len(x.snapshots) - 1; i >= 0; i-- {
		if x.snapshots[i].rev == rev {
			return x.snapshots[i]
		}
	}
	return nil
}

// evictSnapshots drops the oldest snapshots as needed to add another one. Callers hold mu.
func (x *Index) evictSnapshots() {
	idle, all := 0, len(x.snapshots)
	for _, s := range x.snapshots {
		if s.users.Load() == 0 {
			idle++
		}
	}
	x.retainSnapshots(func(s *Snapshot) bool {
		unused := s.users.Load() == 0
		if all < snapshotUsed && (!unused || idle < snapshotMax) {
			return true
		}
		all--
		if unused {
			idle--
		}
		return false
	})
}

// prune drops snapshots that are old, or after which much was written. bytes is how many bytes the latest batch has.
// Callers hold mu.
func (x *Index) prune(bytes int64) {
	if len(x.snapshots) == 0 {
		return
	}
	now, most := time.Now(), max(x.cache.max/4, snapshotBytes)
	x.retainSnapshots(func(s *Snapshot) bool {
		s.bytes += bytes
		return s.bytes < most && (s.users.Load() > 0 || now.Sub(s.createdAt) < snapshotAge && s.rev >= x.compacted)
	})
}

// retainSnapshots drops the snapshots for which retain returns false. Callers hold mu.
func (x *Index) retainSnapshots(retain func(*Snapshot) bool) {
	retained := x.snapshots[:0]
	for _, s := range x.snapshots {
		if retain(s) {
			retained = append(retained, s)
		} else {
			s.tree.Store(nil)
		}
	}
	clear(x.snapshots[len(retained):])
	x.snapshots = retained
}
