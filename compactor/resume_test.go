package compactor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// counting counts the steps of deletion, and the rows.
type counting struct{ steps, rows atomic.Int64 }

func (*counting) Batch(store.Batch) {}
func (*counting) Events(int)        {}

func (c *counting) Purged(_ time.Duration, r backend.PurgeResult) {
	c.steps.Add(1)
	c.rows.Add(int64(r.Removed))
}

func openSQLite(t *testing.T, path string) backend.Backend {
	t.Helper()
	b, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, UnsafeNoFsync: true})
	return opened(t, b, err)
}

func openPostgres(t *testing.T, dsn string) backend.Backend {
	t.Helper()
	b, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, MaxConns: 6})
	return opened(t, b, err)
}

func opened(t *testing.T, b backend.Backend, err error) backend.Backend {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func openStore(t *testing.T, b backend.Backend, o store.Observer) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), b, store.Config{Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const keys = 50

// update writes n rows of few keys.
func update(t *testing.T, s *store.Store, n int) {
	t.Helper()
	value := make([]byte, 1<<10)
	for range n / keys {
		txn := &store.Txn{}
		for k := range keys {
			txn.Success = append(txn.Success, store.Op{Put: &store.PutRequest{
				Key:   fmt.Appendf(nil, "k%d", k),
				Value: value,
			}})
		}
		if _, err := s.Txn(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
}

func compactAll(t *testing.T, s *store.Store) int64 {
	t.Helper()
	rev := s.Revision()
	if _, err := s.Compact(t.Context(), rev, false); err != nil {
		t.Fatal(err)
	}
	return rev
}

// some does a few steps of a purge and returns the progress.
func some(t *testing.T, s *store.Store) (through int64) {
	t.Helper()
	var last backend.PurgeResult
	for range 10 {
		res, err := s.PurgeStep(t.Context(), 20)
		if err != nil || res.Done || res.Near < last.Near {
			t.Fatalf("%+v, %v after %+v: it should be in the middle", res, err, last)
		}
		last = res
	}
	if last.Near < 2 || last.Near < last.Through {
		t.Fatalf("progress after ten steps: %+v", last)
	}
	return last.Through
}

func versions(t *testing.T, b backend.Backend) int {
	t.Helper()
	h, err := b.History(t.Context(), backend.HistoryQuery{Limit: 100_000, KeysOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return len(h.Changes)
}

// background runs a compactor until the test ends, or until it is stopped.
func background(t *testing.T, s *store.Store) (c *compactor.Compactor, stop func()) {
	t.Helper()
	c, err := compactor.New(s, compactor.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return c, stop
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// A purge that a crash interrupted resumes where it stopped. A copy of the files of a running server is what a server
// finds after a SIGKILL.
func TestPurgeResumesAfterACrash(t *testing.T) {
	dir := t.TempDir()
	b := openSQLite(t, filepath.Join(dir, "before.db"))
	s := openStore(t, b, nil)
	update(t, s, 1500)
	rev := compactAll(t, s)
	through, left := some(t, s), versions(t, b)
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, "before.db"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "after.db"+suffix), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b = openSQLite(t, filepath.Join(dir, "after.db"))
	var n counting
	s = openStore(t, b, &n)
	if res, err := s.PurgeStep(t.Context(), 1); err != nil || res.Through < through {
		t.Fatalf("the first step reached revision %d, %v; before the crash it was %d", res.Through, err, through)
	}
	c, _ := background(t, s)
	eventually(t, "all rows gone", func() bool { return c.State().Purged == rev })
	if got := versions(t, b); got != keys || n.rows.Load() != int64(left-keys) {
		t.Errorf("%d rows are left, %d of %d were deleted after the crash", got, n.rows.Load(), left)
	}
}

// One of two replicas deletes. When it stops in the middle, the other resumes there.
func TestPurgeMovesOn(t *testing.T) {
	dsn := pgserver.Database(t)
	var na, nb counting
	ba := openPostgres(t, dsn)
	a := openStore(t, ba, &na)
	b := openStore(t, openPostgres(t, dsn), &nb)
	update(t, a, 1500)
	eventually(t, "seen by the other", func() bool { return b.Revision() == a.Revision() })
	rev := compactAll(t, a)
	through := some(t, a)
	eventually(t, "compaction seen by the other", func() bool { return b.Compacted() == rev })
	other, _ := background(t, b)
	if st := other.State(); st.Leads || st.Purged != -1 || nb.steps.Load() != 0 {
		t.Fatalf("the other: %+v, %d steps", st, nb.steps.Load())
	}
	left := versions(t, ba)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other takes over", func() bool { return other.State().Purged >= 0 })
	if first := other.State().Purged; first < through {
		t.Errorf("it began at revision %d, the first one had reached %d", first, through)
	}
	eventually(t, "all rows gone", func() bool { return other.State().Purged == rev })
	if got := versions(t, ba); got != keys || nb.rows.Load() != int64(left-keys) {
		t.Errorf("%d rows are left, %d of %d were deleted by the other", got, nb.rows.Load(), left)
	}
}

// With as many updates and a compaction in each round, the database stops growing.
func TestSizeLevelsOff(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testLevelsOff(t, openSQLite(t, filepath.Join(t.TempDir(), "x.db")), false)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		testLevelsOff(t, openPostgres(t, pgserver.Database(t)), true)
	})
}

func testLevelsOff(t *testing.T, b backend.Backend, vacuum bool) {
	s := openStore(t, b, nil)
	c, _ := background(t, s)
	const rounds = 4
	var total, used [rounds]int64
	for n := range rounds {
		update(t, s, 1000)
		rev := compactAll(t, s)
		eventually(t, "purged", func() bool { return c.State().Purged == rev })
		if vacuum { // what autovacuum does once a minute
			if err := b.Defragment(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the space is given back", func() bool {
			size, err := b.Size(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			still := total[n] == size.Total && used[n] == size.InUse // the two were not measured at the same moment
			total[n], used[n] = size.Total, size.InUse
			return vacuum || still && size.Total-size.InUse <= size.Total/8 // SQLite keeps this much free
		})
	}
	for n := rounds / 2; n < rounds; n++ {
		if used[n] > used[1]*5/4 || total[n] > max(total[0], total[1])*5/4 {
			t.Errorf("round %d: %d bytes, %d in use; rounds before it: %v, %v", n, total[n], used[n],
				total[:n], used[:n])
		}
	}
}
