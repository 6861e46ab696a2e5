package store

import (
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

// TestEpochFollowsWhatIsRead stops a replica that has noticed lost history before its index is reset: a read then must
// not see the new epoch first.
func TestEpochFollowsWhatIsRead(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{}, dsn)[0]
	for range 5 {
		put(t, s, "k", "v")
	}
	eventually(t, "the index is loaded", s.index.whole)
	s.index.mu.RLock()
	release := sync.OnceFunc(s.index.mu.RUnlock)
	defer release()
	execute(t, dsn, "UPDATE clock SET revision = 4")
	eventually(t, "the index is to be reset", func() bool {
		free := s.index.mu.TryRLock()
		if free {
			s.index.mu.RUnlock()
		}
		return !free
	})
	before, rev := s.Epoch(), s.index.rev
	release()
	if before != 1 || rev != 6 {
		t.Errorf("epoch %d while reads are at %d", before, rev)
	}
	eventually(t, "the epoch is raised", func() bool { return s.Epoch() == 2 })
	if rev := s.Revision(); rev != 4 {
		t.Errorf("epoch 2 with reads at %d", rev)
	}
}

// TestValuesOfOneEpoch has an index that another history has come to, with a row of the same id: what is read of the
// one before gets nothing from it, and brings nothing in.
func TestValuesOfOneEpoch(t *testing.T) {
	row := func(value string) Row {
		return Row{Key: []byte("k"), ModRevision: 2, CreateRevision: 2, Version: 1, Value: []byte(value)}
	}
	cold := func() *item { return &item{Row: row(""), slot: -1} }
	for _, epoch := range []int64{1, 2} {
		x := newIndex(backend.Clock{Revision: 1, Epoch: 1}, 1<<20, false)
		x.reset(backend.Clock{Revision: 1, Epoch: 2})
		x.apply([]*item{cold()}, 2, 0)
		same := epoch == 2
		x.keep([]*item{newItem(row("of the epoch that is asked for"))}, epoch)
		if it, _ := x.lookup([]byte("k")); it.cached != same {
			t.Errorf("epoch %d: a value that was fetched is kept: %v", epoch, it.cached)
		}

		x = newIndex(backend.Clock{Revision: 1, Epoch: 2}, 1<<20, false)
		x.apply([]*item{newItem(row("of epoch 2"))}, 2, 0)
		items := []*item{cold()}
		if missing := x.warm(items, epoch); (missing == 0) != same || items[0].cached != same {
			t.Errorf("epoch %d: %d missing, %+v", epoch, missing, items[0])
		}
	}
}
