package store

import (
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// snapshot is the index as it was at one revision. The index lets go of it when it is old, or when too much may be
// alive because of it: whoever goes on from it then reads the rest from the database.
type snapshot struct {
	rev   int64
	tree  atomic.Pointer[tree] // nil once the index has let go of it
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
func (s *snapshot) Tree() *tree {
	if s == nil {
		return nil
	}
	return s.tree.Load()
}

// End is called by a stream that goes on from the snapshot no more.
func (s *snapshot) End() {
	if s != nil {
		s.users.Add(-1)
	}
}

// At returns the clock of the index and, of the same moment, the tree of the snapshot at revision rev, nil when there
// is none. A revision <= 0 means the current one; a snapshot of that is made. Later the index may let go of the
// snapshot, but not of a tree that the caller has.
func (x *index) At(rev int64) (backend.Clock, *tree) {
	var keys *tree
	clock, _ := x.snapshot(rev, func(s *snapshot) { keys = s.Tree() })
	return clock, keys
}

// Pin is At for a stream, which goes on from the snapshot until it calls its End.
func (x *index) Pin(rev int64) (backend.Clock, *snapshot) {
	return x.snapshot(rev, func(s *snapshot) { s.users.Add(1) })
}

// Now returns the index as it is, its revision and its epoch, for a short look: the copy is not kept, so it pushes out
// none of those that lists go on from. Nil when the index is not complete.
func (x *index) Now() (_ *tree, rev, epoch int64) {
	x.mu.RLock()
	snap, rev, epoch, complete := x.taken(x.rev), x.rev, x.epoch, x.complete
	x.mu.RUnlock()
	if snap != nil || !complete {
		return snap.Tree(), rev, epoch
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.complete {
		return nil, x.rev, x.epoch // it was reset meanwhile
	}
	return x.tree.copy(), x.rev, x.epoch
}

// Fork returns a copy of the index that its caller may change, if the index is below revision, and the index's
// revision; ok is false when it is not complete. Behind a copy all that is written to the index copies parts of it,
// too.
func (x *index) Fork(revision int64) (t *tree, rev int64, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.complete && x.rev < revision {
		t = x.tree.copy()
	}
	return t, x.rev, x.complete
}

// snapshot finds or makes the snapshot at rev and uses it under the lock, without which the index may let go of it.
func (x *index) snapshot(rev int64, use func(*snapshot)) (backend.Clock, *snapshot) {
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
		snap = &snapshot{rev: x.rev, taken: time.Now()}
		snap.tree.Store(x.tree.copy())
		x.snapshots = append(x.snapshots, snap)
	}
	if snap != nil {
		use(snap)
	}
	return clock, snap
}

// look returns the clock, the snapshot at rev if it was made, and whether it can be. Callers hold mu.
func (x *index) look(rev int64) (clock backend.Clock, snap *snapshot, could bool) {
	clock = x.clock()
	if rev <= 0 {
		rev = x.rev
	}
	return clock, x.taken(rev), rev == x.rev && x.complete
}

func (x *index) taken(rev int64) *snapshot {
	for i := len(x.snapshots) - 1; i >= 0; i-- {
		if x.snapshots[i].rev == rev {
			return x.snapshots[i]
		}
	}
	return nil
}

// makeRoom lets go of the oldest snapshots for another one. Callers hold mu.
func (x *index) makeRoom() {
	idle, all := 0, len(x.snapshots)
	for _, s := range x.snapshots {
		if s.users.Load() == 0 {
			idle++
		}
	}
	x.keepSnapshots(func(s *snapshot) bool {
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
func (x *index) prune(bytes int64) {
	if len(x.snapshots) == 0 {
		return
	}
	now, most := time.Now(), max(x.cache.max/4, snapshotBytes)
	x.keepSnapshots(func(s *snapshot) bool {
		s.bytes += bytes
		return s.bytes < most && (s.users.Load() > 0 || now.Sub(s.taken) < snapshotAge && s.rev >= x.compacted)
	})
}

// keepSnapshots lets go of the others. Callers hold mu.
func (x *index) keepSnapshots(keep func(*snapshot) bool) {
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
