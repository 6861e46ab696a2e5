package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// openShared opens n backends on one empty database.
func openShared(tb testing.TB, n int) []backend.Backend {
	tb.Helper()
	return openSharedOn(tb, n, pgserver.Database(tb))
}

func openSharedOn(tb testing.TB, n int, dsn string) (all []backend.Backend) {
	tb.Helper()
	for range n {
		b, err := postgres.Open(tb.Context(), postgres.Config{DSN: dsn, MaxConns: 6})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := b.Close(); err != nil {
				tb.Error(err)
			}
		})
		all = append(all, b)
	}
	return all
}

// openReplicas starts n engines on one empty database.
func openReplicas(tb testing.TB, n int, cfg Config) []*Store {
	tb.Helper()
	return replicasOn(tb, n, cfg, pgserver.Database(tb))
}

func replicasOn(tb testing.TB, n int, cfg Config, dsn string) (all []*Store) {
	tb.Helper()
	for _, b := range openSharedOn(tb, n, dsn) {
		all = append(all, openStore(tb, b, cfg))
	}
	return all
}

// watchAll watches all keys of s from a revision on. 0 means after everything committed so far, by any replica.
func watchAll(tb testing.TB, s *Store, from int64) *WatchStream {
	tb.Helper()
	if err := s.confirm(within(tb)); err != nil {
		tb.Fatal(err)
	}
	st := s.NewWatchStream()
	tb.Cleanup(st.Close)
	st.Watch(WatchRequest{Key: []byte{0}, End: []byte{0}, StartRevision: from, PrevKV: true})
	if r := next(tb, st); !r.Created || r.Canceled {
		tb.Fatalf("got %+v", r)
	}
	return st
}

// execute runs a statement on the database behind the replicas' backs.
func execute(tb testing.TB, dsn, query string, args ...any) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

// forge writes keys that were created at revisions which others have reused, and runs another statement, in one
// transaction.
func forge(tb testing.TB, dsn string, rows []backend.Row, statement string) {
	tb.Helper()
	const insert = "INSERT INTO object_versions (resource_version, ordinal, key, deleted, create_revision, version, " +
		"lease, previous_version, batch, value, checksum, written_at) " +
		"VALUES ($1, 0, $2, false, $1, 1, 0, 0, 4711, $3, $4, 1) ON CONFLICT (resource_version, ordinal) " +
		"DO UPDATE SET key = EXCLUDED.key, value = EXCLUDED.value, batch = EXCLUDED.batch, " +
		"checksum = EXCLUDED.checksum, written_at = EXCLUDED.written_at"
	conn, err := pgx.Connect(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var batch pgx.Batch // is one transaction
	var sums backend.Sums
	for _, r := range rows {
		r.CreateRevision, r.Version = r.ModRevision, 1
		batch.Queue(insert, r.ModRevision, r.Key, r.Value, sums.Of(&r, 1))
	}
	batch.Queue(statement)
	if err := conn.SendBatch(tb.Context(), &batch).Close(); err != nil {
		tb.Fatal(err)
	}
}

// eventually waits until f returns true.
func eventually(tb testing.TB, what string, f func() bool) {
	tb.Helper()
	ctx := within(tb)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatal("timed out waiting for: ", what)
		}
	}
}

// TestReplicasCount has every replica increment one number by compare-and-put. Every replica's watch shows each sum
// once.
func TestReplicasCount(t *testing.T) {
	t.Parallel()
	const replicas, writers, each = 3, 3, 40
	all := openReplicas(t, replicas, Config{})
	var streams []*WatchStream
	for _, s := range all {
		streams = append(streams, watchAll(t, s, 1))
	}
	put(t, all[0], "n", "0")
	var wg sync.WaitGroup
	for i := range replicas * writers {
		wg.Go(func() {
			s := all[i%replicas]
			for added := 0; added < each; {
				row := get(t, all[(i+added)%replicas], "n", 0)
				var n int
				if _, err := fmt.Sscan(string(row.Value), &n); err != nil {
					t.Error(err)
					return
				}
				res, err := s.Txn(within(t), &Txn{
					Compare: []Compare{{
						Key: row.Key, Target: CompareMod, Result: CompareEqual,
						Number: row.ModRevision,
					}},
					Success: []Op{{Put: &PutRequest{Key: row.Key, Value: fmt.Append(nil, n+1)}}},
				})
				if err != nil {
					t.Error(err)
					return
				}
				if res.Succeeded {
					added++
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	const sum = replicas * writers * each
	for i, st := range streams {
		for n := 0; n <= sum; {
			for _, e := range next(t, st).Events {
				if string(e.Row.Value) != fmt.Sprint(n) || e.Row.ModRevision != int64(n+2) ||
					n > 0 && (e.Prev == nil || string(e.Prev.Value) != fmt.Sprint(n-1)) {
					t.Fatalf("replica %d shows %s, want the sum %d", i, eventText(e), n)
				}
				n++
			}
		}
	}
}

// TestReplicaSeesWhatAnotherAcknowledged reads on one replica what the other has just acknowledged.
func TestReplicaSeesWhatAnotherAcknowledged(t *testing.T) {
	t.Parallel()
	eachIndex(t, func(t *testing.T, cfg Config) {
		all := openReplicas(t, 2, cfg)
		for n := range 200 {
			w, r := all[n%2], all[1-n%2]
			rev := put(t, w, fmt.Sprint("k", n%7), fmt.Sprint(n))
			if row := get(t, r, fmt.Sprint("k", n%7), 0); row == nil || row.ModRevision != rev ||
				string(row.Value) != fmt.Sprint(n) {
				t.Fatalf("after the put at %d: %s", rev, rowText(row))
			}
			if n%20 == 19 {
				if _, err := w.Compact(within(t), rev, true); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Range(within(t), &RangeRequest{Key: []byte("k"), Revision: rev - 1}); !errors.Is(err,
					ErrCompacted) {
					t.Fatalf("read of a revision that the other replica compacted: %v", err)
				}
			}
		}
	})
}

// TestReplicaFarBehind writes more, in large rows, than one tail query returns, while a replica queries only when its
// own batch begins.
func TestReplicaFarBehind(t *testing.T) {
	t.Parallel()
	all := openReplicas(t, 2, Config{})
	st := watchAll(t, all[1], 2)
	value := make([]byte, 10_000)
	for n := range 40 {
		txn := &Txn{}
		for i := range 100 {
			txn.Success = append(txn.Success, Op{Put: &PutRequest{Key: fmt.Append(nil, n, "/", i), Value: value}})
		}
		if _, err := all[0].Txn(within(t), txn); err != nil {
			t.Fatal(err)
		}
	}
	if rev := put(t, all[1], "last", ""); rev != 42 {
		t.Fatalf("the last write is at revision %d", rev)
	}
	rev, count := int64(1), 0
	for rev < 42 {
		for _, e := range next(t, st).Events {
			if r := e.Row.ModRevision; r != rev && r != rev+1 {
				t.Fatalf("revision %d follows %d", r, rev)
			}
			rev = e.Row.ModRevision
			count++
		}
	}
	if count != 4001 {
		t.Errorf("%d events", count)
	}
}

// TestProgressFollowsOtherReplicas requests progress on one replica after a write on the other.
func TestProgressFollowsOtherReplicas(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	st := watchAll(t, all[1], 0)
	for n := range 50 {
		rev := put(t, all[0], "k", fmt.Sprint(n))
		st.RequestProgress()
		seen := int64(0)
		for {
			r := next(t, st)
			if r.ID == -1 {
				if r.Revision < rev || seen < rev {
					t.Fatalf("progress at %d after events up to %d, the put was at %d", r.Revision, seen, rev)
				}
				break
			}
			seen = r.Events[len(r.Events)-1].Row.ModRevision
		}
	}
}

// TestSharedLeases grants, attaches, renews and revokes on different replicas.
func TestSharedLeases(t *testing.T) {
	dsn := pgserver.Database(t)
	all := replicasOn(t, 3, Config{}, dsn)
	ctx := within(t)
	grant(t, all[0], 7, 1000, "a")
	for _, s := range all {
		if _, err := s.LeaseGrant(ctx, 7, 5); !errors.Is(err, ErrLeaseExists) {
			t.Fatalf("granted again: %v", err)
		}
	}
	if _, err := all[1].Put(ctx, &PutRequest{Key: []byte("b"), Lease: 7}); err != nil {
		t.Fatal(err)
	}
	if _, err := all[1].Put(ctx, &PutRequest{Key: []byte("c"), Lease: 8}); !errors.Is(err, ErrLeaseNotFound) {
		t.Fatalf("put with a missing lease: %v", err)
	}
	st := watchAll(t, all[2], 0)
	for range 3 { // the renewals last longer than the TTL
		execute(t, dsn, "UPDATE leases SET due_at = '-infinity', expires_at = expires_at - interval '900 s'")
		if ttl, err := all[2].LeaseRenew(ctx, 7); err != nil || ttl != 1000 {
			t.Fatalf("renewed: %d, %v", ttl, err)
		}
	}
	l, keys, err := all[1].LeaseTimeToLive(ctx, 7, true)
	if err != nil || l.Granted != 1000*time.Second || l.Remaining < 900*time.Second ||
		fmt.Sprintf("%s", keys) != "[a b]" {
		t.Fatalf("lease %+v, keys %q, %v", l, keys, err)
	}
	eventually(t, "the lease ends", func() bool { // stalled heartbeats restart its TTL
		execute(t, dsn, "UPDATE leases SET due_at = '-infinity', expires_at = clock_timestamp()")
		return get(t, all[2], "a", 0) == nil
	})
	r := next(t, st)
	if len(r.Events) != 2 || !r.Events[0].Row.Deleted || !r.Events[1].Row.Deleted ||
		r.Events[0].Row.ModRevision != r.Events[1].Row.ModRevision {
		t.Fatalf("expired as %+v", r)
	}
	for _, s := range all {
		if _, err := s.LeaseRenew(ctx, 7); !errors.Is(err, ErrLeaseNotFound) {
			t.Errorf("renewed an expired lease: %v", err)
		}
		if ids, err := s.Leases(ctx); err != nil || len(ids) != 0 {
			t.Errorf("leases %v, %v", ids, err)
		}
	}
	grant(t, all[0], 9, 100, "x")
	if _, err := all[1].LeaseRevoke(ctx, 9); err != nil {
		t.Fatal(err)
	}
	if row := get(t, all[2], "x", 0); row != nil {
		t.Errorf("a key outlives its lease: %s", rowText(row))
	}
}

// TestMaintenanceMovesOn closes the leading replica: another one takes over.
func TestMaintenanceMovesOn(t *testing.T) {
	dsn := pgserver.Database(t)
	all := replicasOn(t, 3, Config{Name: "r"}, dsn)
	leader := func() (at int) {
		at = -1
		for i, s := range all {
			if s.Leads() {
				if at >= 0 {
					t.Fatalf("both %d and %d lead", at, i)
				}
				at = i
			}
		}
		return at
	}
	eventually(t, "all replicas agree on the members and a leader", func() bool {
		for _, s := range all {
			if len(s.Members()) != 3 || s.Leader() != all[0].Leader() || s.Leader() == 0 {
				return false
			}
		}
		return leader() >= 0
	})
	first := leader()
	if err := all[first].Close(); err != nil {
		t.Fatal(err)
	}
	all = append(all[:first], all[first+1:]...)
	eventually(t, "another replica leads", func() bool { return leader() >= 0 && len(all[0].Members()) == 2 })
	put(t, all[0], "k", "v")
}

// TestRefreshMembers lists the members right after another replica joins, in many calls at once.
func TestRefreshMembers(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	ctx := within(t)
	var asking errgroup.Group
	for range 20 {
		for _, s := range all {
			asking.Go(func() error {
				if err := s.RefreshMembers(ctx); err != nil {
					return err
				}
				if n := len(s.Members()); n != 2 {
					return fmt.Errorf("%d members, want 2", n)
				}
				return nil
			})
		}
	}
	if err := asking.Wait(); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := all[0].RefreshMembers(gone); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a canceled context: %v", err)
	}
	if err := all[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := all[0].RefreshMembers(ctx); !errors.Is(err, ErrClosed) {
		t.Fatalf("on a closed store: %v", err)
	}
}

// TestAlarmStopsAllReplicas raises an alarm on one replica and clears it on another.
func TestAlarmStopsAllReplicas(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	ctx := within(t)
	a := Alarm{Member: all[0].Settings().MemberID, Kind: AlarmNoSpace}
	if err := all[0].RaiseAlarm(ctx, a); err != nil {
		t.Fatal(err)
	}
	if _, err := all[1].Put(ctx, &PutRequest{Key: []byte("k")}); !errors.Is(err, ErrQuota) {
		t.Fatalf("put on the other replica: %v", err)
	}
	if was, err := all[1].ClearAlarm(ctx, a); err != nil || !was {
		t.Fatalf("cleared: %v, %v", was, err)
	}
	put(t, all[0], "k", "v")
}

// TestExportHoldsOffPurgeOnOtherReplicas exports on one replica while the other compacts.
func TestExportHoldsOffPurgeOnOtherReplicas(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	ctx := within(t)
	for n := range 100 {
		put(t, all[0], fmt.Sprint("k", n%10), fmt.Sprint(n))
	}
	x, err := all[1].Export(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].Compact(ctx, 101, false); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if res, err := all[0].PurgeStep(ctx, 1000); err != nil || res.Removed != 0 || res.Done {
			t.Fatalf("purge under an export: %+v, %v", res, err)
		}
	}
	rows := 0
	if err := x.Rows(ctx, func(backend.Row) error { rows++; return nil }); err != nil || rows != 100 {
		t.Errorf("%d rows exported, %v", rows, err)
	}
	x.Close()
	eventually(t, "the purge ends once the export is closed", func() bool {
		res, err := all[0].PurgeStep(ctx, 1000)
		return err == nil && res.Done
	})
}

// TestCompactionIsHinted compacts on one replica, which does not change the revision.
func TestCompactionIsHinted(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	for _, s := range all {
		eventually(t, "both replicas listen",
			func() bool { return replicaOf(s).hints.Load() && len(s.Members()) == 2 })
	}
	rev := put(t, all[0], "k", "v")
	eventually(t, "the put arrives", func() bool { return all[1].Revision() == rev })
	before, _ := all[1].ReplicaStats()
	for _, at := range []int64{0, rev} {
		if _, err := all[0].Compact(within(t), at, false); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a hint arrives", func() bool {
		now, _ := all[1].ReplicaStats()
		return now.Hinted > before.Hinted && all[1].Compacted() == rev
	})
}

// TestLostHistory removes acknowledged revisions from the database, like a failover to a standby that lacks them.
func TestLostHistory(t *testing.T) {
	t.Parallel()
	lose := func(t *testing.T, dsn string, last int64) {
		execute(t, dsn, "DELETE FROM object_versions WHERE resource_version > $1", last)
		execute(t, dsn, "UPDATE clock SET revision = $1", last)
	}
	ended := func(t *testing.T, st *WatchStream) {
		for {
			r := next(t, st)
			if r.Canceled && r.CompactRevision > 0 {
				return
			}
			if len(r.Events) == 0 {
				t.Fatalf("got %+v", r)
			}
		}
	}
	t.Run("the clock has fallen", func(t *testing.T) {
		dsn := pgserver.Database(t)
		all := replicasOn(t, 2, Config{}, dsn)
		for n := range 20 {
			put(t, all[0], fmt.Sprint("k", n), "v")
		}
		streams := []*WatchStream{watchAll(t, all[0], 0), watchAll(t, all[1], 0)}
		lose(t, dsn, 15)
		for i, s := range all {
			ended(t, streams[i])
			if n := s.Epoch(); n != 2 {
				t.Errorf("replica %d has epoch %d", i, n)
			}
			res, err := s.Range(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l")})
			if err != nil || res.Count != 14 || res.Revision != 15 {
				t.Errorf("replica %d has %+v, %v", i, res, err)
			}
		}
		if rev := put(t, all[1], "new", "v"); rev != 16 {
			t.Errorf("the next write is at revision %d", rev)
		}
		if get(t, all[0], "new", 0) == nil || get(t, all[0], "k16", 0) != nil {
			t.Error("the other replica reads a different history")
		}
	})
	for name, started := range map[string]bool{
		"others have written past the lost numbers": false,
		"of one that has just started":              true,
	} {
		t.Run(name, func(t *testing.T) {
			dsn := pgserver.Database(t)
			old := replicasOn(t, 1, Config{}, dsn)[0]
			for n := range 20 {
				put(t, old, fmt.Sprint("k", n), "v")
			}
			if started { // it loads the lost revisions at its start and has published none
				if err := old.Close(); err != nil {
					t.Fatal(err)
				}
				old = replicasOn(t, 1, Config{}, dsn)[0]
			}
			st := watchAll(t, old, 0)
			var others []backend.Row
			for n := int64(16); n <= 30; n++ {
				others = append(others, backend.Row{Key: fmt.Append(nil, "other", n), ModRevision: n, Value: []byte{}})
			}
			// the clock never falls below what the replica holds
			forge(t, dsn, others, "UPDATE clock SET revision = 30")
			ended(t, st)
			if n := old.Epoch(); n != 2 {
				t.Errorf("epoch %d", n)
			}
			res, err := old.Range(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}})
			if err != nil || res.Count != 29 || res.Revision != 30 {
				t.Errorf("the replica has %d keys at %d, %v", res.Count, res.Revision, err)
			}
		})
	}
}

// TestEpochFallsBack reverts the increment of the epoch in the database, like a second failover, a return to the first
// primary, or a restore in place.
func TestEpochFallsBack(t *testing.T) {
	t.Parallel()
	dsn := pgserver.Database(t)
	all := replicasOn(t, 2, Config{}, dsn)
	put(t, all[0], "k", "1")
	execute(t, dsn, "UPDATE clock SET incarnation = 5")
	for _, s := range all {
		eventually(t, "the epoch is raised", func() bool { return s.Epoch() == 5 })
	}
	put(t, all[0], "k", "2")
	streams := []*WatchStream{watchAll(t, all[0], 0), watchAll(t, all[1], 0)}
	execute(t, dsn, "UPDATE clock SET incarnation = 1")
	for i, s := range all {
		for {
			r := next(t, streams[i])
			if r.Canceled && r.CompactRevision > 0 {
				break
			}
			if len(r.Events) == 0 {
				t.Fatalf("replica %d: got %+v", i, r)
			}
		}
		if row := get(t, s, "k", 0); row == nil || string(row.Value) != "2" {
			t.Errorf("replica %d reads %+v", i, row)
		}
		if st, err := s.Status(within(t)); err != nil || st.Epoch != 6 {
			t.Errorf("replica %d has %+v, %v; want an epoch that is not used yet", i, st, err)
		}
	}
	for i, s := range all {
		put(t, s, "k", fmt.Sprint(3+i))
	}
}

// TestBumpedClock raises the clock past numbers that no row has, like a repair.
func TestBumpedClock(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	ctx := within(t)
	put(t, all[0], "a", "1")
	get(t, all[1], "a", 0)
	st := watchAll(t, all[1], 2)
	if r := next(t, st); len(r.Events) == 0 { // before the compaction, which drops the watch's waiting events
		t.Fatalf("got %+v", r)
	}
	tx, err := all[0].backend.Begin(ctx, backend.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx, &backend.Effects{Revision: 1000, Compacted: 1000, Batch: 1}); err != nil {
		t.Fatal(err)
	}
	if r := next(t, st); !r.Canceled || r.CompactRevision != 1000 {
		t.Errorf("an earlier watch continues: %+v", r)
	}
	const reads = 100
	for i, s := range all {
		before, _ := s.ReplicaStats()
		for range reads {
			if row := get(t, s, "a", 0); row == nil {
				t.Errorf("replica %d lacks a key", i)
			}
		}
		// One query for each read, and those of the poll.
		if after, _ := s.ReplicaStats(); after.Asked-before.Asked > reads+reads/2 {
			t.Errorf("replica %d asked the database %d times for %d reads", i, after.Asked-before.Asked, reads)
		}
		if _, err := s.Range(ctx, &RangeRequest{Key: []byte("a"), Revision: 999}); !errors.Is(err, ErrCompacted) {
			t.Errorf("replica %d reads below the compacted revision: %v", i, err)
		}
		if rev := put(t, s, "a", "2"); rev != int64(1001+i) {
			t.Errorf("replica %d writes at revision %d", i, rev)
		}
	}
}
