package index

import (
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A stream continues from its snapshot even if newer lists evict others.
func TestSnapshotsInUseAreRetained(t *testing.T) {
	x := loaded(1 << 20)
	rev := int64(1)
	write := func() int64 {
		rev++
		x.Apply([]*Item{NewItem(backend.Row{Key: []byte("a"), ModRevision: rev})}, rev, 0)
		return rev
	}
	_, pinned := x.Pin(write())
	for range 2 * snapshotUsed {
		x.At(write())
		if n := len(x.snapshots); n > snapshotMax+1 {
			t.Fatalf("%d snapshots are kept", n)
		}
	}
	if pinned.Tree() == nil {
		t.Error("a snapshot in use was evicted")
	}
	pinned.End()
	x.At(write())
	x.At(write())
	if pinned.Tree() != nil {
		t.Error("an unused snapshot was kept before newer ones")
	}
	for range 2 * snapshotUsed {
		x.Pin(write())
		if n := len(x.snapshots); n > snapshotUsed {
			t.Fatalf("%d snapshots are kept", n)
		}
	}
}

// A snapshot is dropped, in use or not, once it may keep too much memory alive.
func TestSnapshotsRetainBoundedMemory(t *testing.T) {
	x := loaded(0)
	_, pinned := x.Pin(1)
	for rev := int64(2); rev < 4; rev++ {
		if pinned.Tree() == nil {
			t.Fatalf("the snapshot was dropped before revision %d", rev)
		}
		row := backend.Row{Key: []byte("k"), Value: make([]byte, snapshotBytes/2), ModRevision: rev}
		x.Apply([]*Item{NewItem(row)}, rev, 0)
	}
	if clock, rows := x.At(1); rows != nil || pinned.Tree() != nil || clock.Revision != 3 {
		t.Errorf("a snapshot is still kept, %+v", clock)
	}
}

// loaded returns a complete, empty index at revision 1.
func loaded(cacheBytes int64) *Index {
	x := New(backend.Clock{Revision: 1}, cacheBytes, false)
	x.Finish(x.Position().Generation)
	return x
}
