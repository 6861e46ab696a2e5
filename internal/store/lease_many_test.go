package store

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// minutes returns a context that leaves enough time for a million leases on a busy machine.
func minutes(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// grantMany commits n leases, every hundredth with a key, directly to the backend.
func grantMany(t *testing.T, b backend.Backend, n int, ttl time.Duration) {
	t.Helper()
	const part = 10_000
	for from := 0; from < n; from += part {
		tx, err := b.Begin(minutes(t), backend.Needs{})
		if err != nil {
			t.Fatal(err)
		}
		e := &backend.Effects{Revision: tx.Loaded().Clock.Revision + 1, Batch: 1}
		for id := from + 1; id <= min(from+part, n); id++ {
			e.Granted = append(e.Granted, backend.Lease{ID: int64(id), TTL: ttl})
			if id%100 == 0 {
				e.Rows = append(e.Rows, backend.Row{
					Key: fmt.Appendf(nil, "leased/%07d", id), Value: []byte("v"), Lease: int64(id), Version: 1,
					ModRevision: e.Revision, CreateRevision: e.Revision, Ordinal: int32(len(e.Rows)),
				})
			}
		}
		if err := tx.Commit(minutes(t), e); err != nil {
			t.Fatal(err)
		}
	}
}

// whilePutting writes until done, and logs how long that takes and how long the slowest write takes.
func whilePutting(t *testing.T, s *Store, what string, done func() bool) {
	t.Helper()
	ctx, began, slowest, puts := minutes(t), time.Now(), time.Duration(0), 0
	for !done() {
		at := time.Now()
		if _, err := s.Put(ctx, &PutRequest{Key: []byte("beside"), Value: []byte("v")}); err != nil {
			t.Fatalf("a write during %s: %v", what, err)
		}
		slowest, puts = max(slowest, time.Since(at)), puts+1
		select {
		case <-ctx.Done():
			t.Fatal("timed out: ", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%s: %v, %d concurrent writes, the slowest %v; heap %d MiB", what, time.Since(began).Round(time.Millisecond),
		puts,
		slowest.Round(time.Millisecond), m.HeapAlloc>>20)
}

func countKeys(t *testing.T, s *Store) int64 {
	t.Helper()
	res, err := s.Range(minutes(t), &RangeRequest{Key: []byte("leased/"), End: []byte("leased0"), CountOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return res.Count
}

// TestManyLeases starts stores with many leases, lets one store take them over from another, and lets all of them
// expire.
func TestManyLeases(t *testing.T) {
	t.Parallel()
	n := max(20_000, env.Length.Count(t, 20_000))
	t.Run("SQLite", func(t *testing.T) {
		b, clock := openSQLite(t), &fakeClock{}
		grantMany(t, b, n, time.Hour)
		began := time.Now()
		s := openStore(t, b, Config{Now: clock.now})
		t.Logf("start: %v", time.Since(began).Round(time.Millisecond))
		if keys := countKeys(t, s); keys != int64(n/100) {
			t.Fatalf("%d keys have leases", keys)
		}
		clock.pass(2 * time.Hour) // the store extends leases by the time the process stood still
		whilePutting(t, s, "all leases expire", func() bool { return s.LeaseStats().Expired == uint64(n) })
		wantNone(t, s)
	})
	t.Run("Postgres", func(t *testing.T) {
		dsn := pgserver.Database(t)
		grantMany(t, openSharedOn(t, 1, dsn)[0], n, time.Hour)
		all := openSharedOn(t, 2, dsn)
		began := time.Now()
		first, second := openStore(t, all[0], Config{}), openStore(t, all[1], Config{})
		t.Logf("two starts: %v", time.Since(began).Round(time.Millisecond))
		extended := func(s *Store) func() bool {
			return func() bool { return s.Leads() && !replicaOf(s).members.extends() }
		}
		whilePutting(t, second, "the first store extends all leases", extended(first))
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		whilePutting(t, second, "the second store takes over and extends all leases", extended(second))
		if keys, ended := countKeys(t, second), second.LeaseStats().Expired; keys != int64(n/100) || ended != 0 {
			t.Fatalf("%d keys have leases, %d leases expired", keys, ended)
		}
		var ended time.Time
		whilePutting(t, second, "all leases expire", func() bool {
			if time.Since(ended) > 10*time.Second { // repeat: after stalled heartbeats the store extends leases
				execute(t, dsn, "UPDATE leases SET due_at = '-infinity', expires_at = clock_timestamp() "+
					"WHERE expires_at > clock_timestamp()")
				ended = time.Now()
			}
			return second.LeaseStats().Expired == uint64(n)
		})
		wantNone(t, second)
	})
}

func wantNone(t *testing.T, s *Store) {
	t.Helper()
	left, err := s.Leases(minutes(t))
	if err != nil || len(left) != 0 || countKeys(t, s) != 0 {
		t.Errorf("%d leases and %d keys are left, %v", len(left), countKeys(t, s), err)
	}
}
