package index

import (
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Snapshot is the index as it was at one revision. The index lets go of it when it is old, or when too much may be
// alive because of it: whoever goes on from it then reads the rest from the database.
type Snapshot struct {
	rev   int64
	tree  atomic.Pointer[Tree] // nil once the index has let go of it
	users atomic.Int32         // streams that go on from it
	taken time.Time
	bytes int64 // applied since: what it may be keeping alive
}

const (
	// snapshotMax bounds the snapshots that nobody goes on from at the moment, and snapshotAge how long they are kept.
	snapshotMax = 8
	snapshotAge = time.Minute
	// snapshotUsed bounds all of them: each may keep the nodes of a tree of its own.
	snapshotUsed = 64
	// snapshotBytes is the least that may be written before a snapshot goes, where the cache is small.
	snapshotBytes = 1 << 20
)

// Tree is the rows, nil when the index has let go of it, or there is no snapshot.
func (s *Snapshot) Tree() *Tree {
	if s == nil {
		return nil
	}
	return s.tree.Load()
}

// End is called by a stream that goes on from the snapshot no more.
func (s *Snapshot) End() {
	if s != nil {
		s.users.Add(-1)
	}
}

// At returns the clock of the index and, of the same moment, the tree of the snapshot at revision rev, nil when there
// is none. A revision <= 0 means the current one; a snapshot of that is made. Later the index may let go of the
// snapshot, but not of a tree that the caller has.
func (x *Index) At(rev int64) (backend.Clock, *Tree) {
	var keys *Tree
	clock, _ := x.snapshot(rev, func(s *Snapshot) { keys = s.Tree() })
	return clock, keys
}

// Pin is At for a stream, which goes on from the snapshot until it calls its End.
func (x *Index) Pin(rev int64) (backend.Clock, *Snapshot) {
	return x.snapshot(rev, func(s *Snapshot) { s.users.Add(1) })
}

// Now returns the index as it is, and its clock, for a short look: the copy is not kept, so it pushes out none of those
// that lists go on from. Nil when the index is not complete.
func (x *Index) Now() (*Tree, backend.Clock) {
	x.mu.RLock()
	rows, clock, complete := x.taken(x.rev).Tree(), x.clock(), x.complete
	x.mu.RUnlock()
	if rows != nil || !complete {
		return rows, clock
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.complete {
		return nil, x.clock() // it was reset meanwhile
	}
	return x.tree.copy(), x.clock()
}

// Fork returns a copy of the index that its caller may change, if the index is below revision, and the index's
// revision; ok is false when it is not complete. Behind a copy all that is written to the index copies parts of it,
// too.
func (x *Index) Fork(revision int64) (t *Tree, rev int64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.complete && x.rev < revision {
		t = x.tree.copy()
	}
	return t, x.rev, x.complete
}

// snapshot finds or makes the snapshot at rev and uses it under the lock, without which the index may let go of it.
func (x *Index) snapshot(rev int64, use func(*Snapshot)) (backend.Clock, *Snapshot) {
	x.mu.RLock()
	clock, snap, could := x.look(rev)
	if snap != nil {
		use(snap)
	}
	x.mu.RUnlock()
	if snap != nil || !could {
		return clock, snap
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if clock, snap, could = x.look(rev); snap == nil && could {
		x.makeRoom()
		snap = &Snapshot{rev: x.rev, taken: time.Now()}
		snap.tree.Store(x.tree.copy())
		x.snapshots = append(x.snapshots, snap)
	}
	if snap != nil {
		use(snap)
	}
	return clock, snap
}

// look returns the clock, the snapshot at rev if it was made, and whether it can be. Callers hold mu.
func (x *Index) look(rev int64) (clock backend.Clock, snap *Snapshot, could bool) {
	clock = x.clock()
	if rev <= 0 {
		rev = x.rev
	}
	return clock, x.taken(rev), rev == x.rev && x.complete
}

func (x *Index) taken(rev int64) *Snapshot {
	for i := len(x.snapshots) - 1; i >= 0; i-- {
		if x.snapshots[i].rev == rev {
			return x.snapshots[i]
		}
	}
	return nil
}

// makeRoom lets go of the oldest snapshots for another one. Callers hold mu.
func (x *Index) makeRoom() {
	idle, all := 0, len(x.snapshots)
	for _, s := range x.snapshots {
		if s.users.Load() == 0 {
			idle++
		}
	}
	x.keepSnapshots(func(s *Snapshot) bool {
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

// prune lets go of snapshots that are old, or behind which much was written.
func (x *Index) prune(bytes int64) {
	if len(x.snapshots) == 0 {
		return
	}
	now, most := time.Now(), max(x.cache.max/4, snapshotBytes)
	x.keepSnapshots(func(s *Snapshot) bool {
		s.bytes += bytes
		return s.bytes < most && (s.users.Load() > 0 || now.Sub(s.taken) < snapshotAge && s.rev >= x.compacted)
	})
}

// keepSnapshots lets go of the others. Callers hold mu.
func (x *Index) keepSnapshots(keep func(*Snapshot) bool) {
	kept := x.snapshots[:0]
	for _, s := range x.snapshots {
		if keep(s) {
			kept = append(kept, s)
		} else {
			s.tree.Store(nil)
		}
	}
	clear(x.snapshots[len(kept):])
	x.snapshots = kept
}
