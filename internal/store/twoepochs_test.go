package store

import (
	"context"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// lose deletes everything above a revision from a database.
func lose(t *testing.T, dsn string, above int64) {
	t.Helper()
	// At once: between two statements, a verification in the background would find rows missing.
	execute(t, dsn, "WITH lost AS (DELETE FROM object_versions WHERE resource_version > $1) UPDATE clock SET "+
		"revision = $1, batch = (SELECT batch FROM object_versions WHERE resource_version = $1)", above)
}

// counting is a backend that delays the answer to a count.
type counting struct {
	backend.Shared
	counted, answer chan struct{}
}

func (b *counting) Count(ctx context.Context, q backend.RangeQuery) (int64, backend.Clock, error) {
	n, clock, err := b.Shared.Count(ctx, q)
	b.counted <- struct{}{}
	<-b.answer
	return n, clock, err
}

// A count that began before a loss of history does not apply to the revision that reuses its number.
func TestCountsOfOneEpoch(t *testing.T) {
	dsn := pgserver.Database(t)
	b := &counting{openSharedOn(t, 1, dsn)[0].(backend.Shared), make(chan struct{}, 1), make(chan struct{})}
	s := openStore(t, b, Config{DisableIndex: true})
	retained := put(t, s, "a", "")
	last := put(t, s, "b", "")
	page := make(chan error, 1)
	go func() {
		res, err := s.Range(within(t), &RangeRequest{Key: []byte("a"), End: []byte{0}, Limit: 1, Revision: last})
		if err == nil && res.Count != 2 {
			t.Errorf("counted %d", res.Count)
		}
		page <- err
	}()
	<-b.counted
	lose(t, dsn, retained)
	eventually(t, "the epoch is raised", func() bool { return s.Epoch() == 2 })
	if rev := put(t, s, "a", ""); rev != last {
		t.Fatalf("revision %d, want %d again", rev, last)
	}
	close(b.answer)
	if err := <-page; err != nil {
		t.Fatal(err)
	}
	res, err := s.Range(within(t), &RangeRequest{Key: []byte("a\x00"), End: []byte{0}, Revision: last, CountOnly: true})
	if err != nil || res.Count != 0 {
		t.Errorf("%+v, %v; in the current history only key a has that revision", res, err)
	}
}
