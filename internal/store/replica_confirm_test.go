package store

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// onHost returns the DSN with another address.
func onHost(tb testing.TB, dsn, addr string) string {
	tb.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = addr
	return u.String()
}

// storeOn starts an engine on the database of a DSN.
func storeOn(tb testing.TB, dsn string, cfg Config) *Store {
	tb.Helper()
	b, err := postgres.Open(tb.Context(), postgres.Config{DSN: dsn, MaxConns: 6})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = b.Close() }) // its server may be gone
	return openStore(tb, b, cfg)
}

// TestReplacedPrimary promotes the standby of a primary that keeps running and does not notice, like a primary that is
// cut off from all but one replica. That replica never answers with data older than the staleness bound. Once the old
// primary has acknowledged nothing for long enough, the replica finds the new one.
func TestReplacedPrimary(t *testing.T) {
	t.Parallel()
	for name, staleness := range map[string]time.Duration{"bounded": time.Second, "strict": -1} {
		t.Run(name, func(t *testing.T) {
			s := pgserver.Start(t, pgserver.Options{})
			dsn := s.Database(t)
			standby := s.Standby(t)
			t.Cleanup(func() { _ = s.Asynchronous() }) // otherwise the cleanup waits for the standby
			old := storeOn(t, onHost(t, dsn, s.Addr()+","+standby.Addr()), Config{MaxStaleness: staleness})
			put(t, old, "k", "old")
			grant(t, old, 7, 3600)
			if err := standby.Promote(); err != nil {
				t.Fatal(err)
			}
			other := storeOn(t, onHost(t, dsn, standby.Addr()), Config{})
			put(t, other, "k", "new")
			if _, err := other.LeaseRevoke(within(t), 7); err != nil {
				t.Fatal(err)
			}
			acknowledged := time.Now()
			var wg sync.WaitGroup
			for what, read := range map[string]func(ctx context.Context, s *Store) (current bool, err error){
				"range":          readRange,
				"stream":         readStream,
				"failed compare": readFailedCompare,
				"reading txn":    readTxn,
				"lease":          readLease,
			} {
				wg.Go(func() {
					stale := 0
					for {
						began := time.Now()
						current, err := read(within(t), old)
						switch {
						case err != nil && !errors.Is(err, ErrUnavailable):
							t.Errorf("%s: %v", what, err)
							return
						case err == nil && current:
							t.Logf("%s: current after %v and %d stale answers", what,
								time.Since(acknowledged).Round(time.Millisecond), stale)
							return
						case err == nil:
							if stale++; began.Sub(acknowledged) > max(0, staleness) {
								t.Errorf("%s: a stale read %v after the write was acknowledged", what,
									began.Sub(acknowledged))
								return
							}
						}
					}
				})
			}
			wg.Wait()
			put(t, old, "k", "newer")
			if row := get(t, other, "k", 0); string(row.Value) != "newer" {
				t.Errorf("the other replica reads %q", row.Value)
			}
		})
	}
}

func readRange(ctx context.Context, s *Store) (current bool, err error) {
	res, err := s.Range(ctx, &RangeRequest{Key: []byte("k")})
	return err == nil && string(res.Rows[0].Value) == "new", err
}

func readStream(ctx context.Context, s *Store) (current bool, err error) {
	_, err = s.RangeStream(ctx, &RangeRequest{Key: []byte("k")}, func(rows []*Row, _ bool) error {
		current = string(rows[0].Value) == "new"
		return nil
	})
	return current, err
}

func readFailedCompare(ctx context.Context, s *Store) (current bool, err error) {
	res, err := s.Txn(ctx, &Txn{
		Compare: []Compare{{Key: []byte("k"), Target: CompareVersion, Result: CompareEqual, Number: 4711}},
		Success: []Op{{Put: &PutRequest{Key: []byte("k"), Value: []byte("never")}}},
		Failure: []Op{{Range: &RangeRequest{Key: []byte("k")}}},
	})
	return err == nil && string(res.Results[0].Range.Rows[0].Value) == "new", err
}

func readTxn(ctx context.Context, s *Store) (current bool, err error) {
	res, err := s.Txn(ctx, &Txn{Success: []Op{{Range: &RangeRequest{Key: []byte("k")}}}})
	return err == nil && string(res.Results[0].Range.Rows[0].Value) == "new", err
}

// readLease looks up a lease that has been revoked since.
func readLease(ctx context.Context, s *Store) (current bool, err error) {
	_, _, err = s.LeaseTimeToLive(ctx, 7, false)
	if errors.Is(err, ErrLeaseNotFound) {
		return true, nil
	}
	return false, err
}

// TestHeartbeatsConfirm counts the commits that reads cause: none while heartbeats are on time, unless a read opens a
// connection, which is younger than the last heartbeat. So the test reads until none does.
func TestHeartbeatsConfirm(t *testing.T) {
	s := openReplicas(t, 1, Config{MaxStaleness: time.Minute})[0]
	put(t, s, "k", "v")
	const reads, most = 100, 20 // more rounds than connections
	for round := 1; ; round++ {
		before, _ := s.ReplicaStats()
		for range reads {
			get(t, s, "k", 0)
			if _, err := readFailedCompare(within(t), s); err != nil {
				t.Fatal(err)
			}
		}
		after, _ := s.ReplicaStats()
		if n := after.Asked - before.Asked; n > reads+reads/2 { // one for each read, and those of the poll
			t.Errorf("asked the database %d times for %d reads", n, reads)
		}
		switch n := after.Confirmed - before.Confirmed; {
		case n == 0:
			return
		case round == most:
			t.Fatalf("%d commits for %d reads in round %d", n, 2*reads, round)
		}
	}
}

// TestReadsShareACommit has many reads wait while the first read's commit blocks. They arrive too late for that commit
// and share the next one.
func TestReadsShareACommit(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 1, Config{MaxStaleness: -1}, dsn)[0]
	put(t, s, "k", "v")
	get(t, s, "k", 0)
	before, _ := s.ReplicaStats()
	unlock := pgserver.LockTable(t, dsn, "members")
	var wg sync.WaitGroup
	read := func() {
		wg.Go(func() {
			if _, err := s.Range(within(t), &RangeRequest{Key: []byte("k")}); err != nil {
				t.Error(err)
			}
		})
	}
	r := replicaOf(s)
	queued := func(n int) func() bool {
		return func() bool {
			r.asking.Lock()
			defer r.asking.Unlock()
			return len(r.waiting) == n
		}
	}
	read()
	eventually(t, "the first commit is under way", func() bool {
		r.confirmations.mu.Lock()
		defer r.confirmations.mu.Unlock()
		return r.confirmations.busy
	})
	eventually(t, "the first read leaves the queue", queued(0))
	const others = 50
	for range others {
		read()
	}
	eventually(t, "the others wait", queued(others))
	unlock()
	wg.Wait()
	if after, _ := s.ReplicaStats(); after.Confirmed-before.Confirmed != 2 {
		t.Errorf("%d commits, want 2", after.Confirmed-before.Confirmed)
	}
}

// forward proxies connections to the current address in target, like a service.
func forward(tb testing.TB, target *atomic.Pointer[string]) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s, err := net.Dial("tcp", *target.Load())
				if err != nil {
					return
				}
				defer s.Close()
				go func() { _, _ = io.Copy(c, s); _ = c.Close() }()
				_, _ = io.Copy(s, c)
			}()
		}
	}()
	return l.Addr().String()
}

// TestServiceLeadsToStandby temporarily points the only address of a DSN at a standby that has not replayed the last
// write.
func TestServiceLeadsToStandby(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t, pgserver.Options{})
	dsn := s.Database(t)
	standby := s.Standby(t)
	t.Cleanup(func() { _ = s.Asynchronous() }) // otherwise the cleanup waits for the standby
	var target atomic.Pointer[string]
	primaryAddr, standbyAddr := s.Addr(), standby.Addr()
	target.Store(&primaryAddr)
	through := storeOn(t, onHost(t, dsn, forward(t, &target)), Config{})
	direct := storeOn(t, onHost(t, dsn, primaryAddr), Config{})
	put(t, direct, "k", "old")
	if row := get(t, through, "k", 0); string(row.Value) != "old" {
		t.Fatalf("read %q", row.Value)
	}
	execute(t, standby.DSN(), "SELECT pg_wal_replay_pause()")
	target.Store(&standbyAddr)
	execute(t, s.DSN(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sqlstore' "+
		"AND pid <> pg_backend_pid()")
	eventually(t, "a write succeeds on the primary", func() bool {
		_, err := direct.Put(within(t), &PutRequest{Key: []byte("k"), Value: []byte("new")})
		return err == nil
	})
	for range 3 {
		if current, err := readRange(within(t), through); err == nil && !current {
			t.Error("a standby answered a read")
		}
	}
	target.Store(&primaryAddr)
	eventually(t, "a read succeeds on the primary", func() bool {
		current, err := readRange(within(t), through)
		return err == nil && current
	})
}
