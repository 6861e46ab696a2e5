package postgres

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// stuckReads makes n reads wait for a lock until ctx ends or their timeout, and returns when all have ended.
func stuckReads(ctx context.Context, t *testing.T, b *Backend, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, _, err := b.Range(ctx, backend.RangeQuery{Span: backend.Span{Start: []byte("a")}, Revision: 2, Limit: 1})
			if !errors.Is(err, context.Canceled) && !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("a read of a locked table: %v", err)
			}
		})
	}
	wg.Wait()
}

// waiting counts sqlstore's statements that wait for a lock in the database of dsn.
func waiting(t *testing.T, dsn string) (n int) {
	t.Helper()
	admin(t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = "+
		"'sqlstore' AND wait_event_type = 'Lock'", &n)
	return n
}

// TestAbandonedReads makes many reads wait for a lock until their callers leave: the server stops working for them,
// their connections are reused, and the statements that keep a replica in service never wait for them.
func TestAbandonedReads(t *testing.T) {
	t.Parallel() // it waits most of its time
	direct := database(t)
	through := throughPooler(t)
	for _, c := range []struct {
		name, dsn string
		conns     int
	}{
		{"direct", direct, 6},
		{"pooler", through(t), 6},
		{"the fewest", database(t), minConns},
		{"one more", database(t), minConns + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := c.dsn
			b := openTest(t, Config{DSN: dsn, MaxConns: c.conns})
			if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("a", 2)); err != nil {
				t.Fatal(err)
			}
			base := onHostOf(t, dsn, direct)
			// Each connection of the pool is known to work before the lock, so that none is opened because another
			// broke.
			fill(t, b.reads)
			opened := b.Connections().Opened
			unlock := pgserver.LockTable(t, base, "object_versions")
			for range 2 {
				readers := make(chan struct{})
				ctx, leave := context.WithCancel(t.Context())
				go func() {
					defer close(readers)
					stuckReads(ctx, t, b, 20)
				}()
				eventually(t, "reads wait for the lock",
					func() bool { return waiting(t, base) == int(b.reads.pool.Config().MaxConns) })
				if _, err := b.Head(t.Context()); err != nil {
					t.Errorf("the clock beside reads that hang: %v", err)
				}
				if _, err := b.Heartbeat(t.Context(), backend.Member{ID: 1}, time.Minute, time.Minute); err != nil {
					t.Errorf("a heartbeat beside reads that hang: %v", err)
				}
				if _, err := b.RenewLeases(t.Context(), []int64{1}); err != nil {
					t.Errorf("a renewal beside reads that hang: %v", err)
				}
				begin(t, b, backend.Needs{}).Rollback()
				leave()
				<-readers
				eventually(t, "the server stops working for readers that have gone",
					func() bool { return waiting(t, base) == 0 })
			}
			unlock()
			if rows, _, err := b.Range(t.Context(),
				backend.RangeQuery{Span: backend.Span{Start: []byte("a")}, Revision: 2, Limit: 1}); err != nil ||
				len(rows) != 1 {
				t.Errorf("a read after the lock: %v, %v", rows, err)
			}
			// heartbeats and renewals may have opened one more for control statements
			if n := b.Connections().Opened - opened; n > 1 {
				t.Errorf("%d connections were opened anew", n)
			}
		})
	}
}

// onHostOf is the database of dsn on the host of another DSN.
func onHostOf(t *testing.T, dsn, other string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	o, err := url.Parse(other)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = o.Host
	return u.String()
}

// fill opens all connections of a lane.
func fill(t *testing.T, l lane) {
	t.Helper()
	for _, c := range acquireAll(t, l) {
		c.Release()
	}
}

// acquireAll acquires all connections of a lane.
func acquireAll(t *testing.T, l lane) (all []*pgxpool.Conn) {
	t.Helper()
	for range l.pool.Config().MaxConns {
		c, err := l.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// TestSlowRead makes one read time out: no other connection is closed because of it.
func TestSlowRead(t *testing.T) {
	t.Parallel() // it waits most of its time
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn, MaxConns: 6})
	fill(t, b.reads)
	wantClock(t, b, 1)
	opened := b.Connections().Opened
	unlock := pgserver.LockTable(t, dsn, "object_versions")
	defer unlock()
	_, _, err := b.Range(t.Context(), backend.RangeQuery{Span: backend.Span{Start: []byte("a")}, Revision: 1, Limit: 1})
	if !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a read beyond its timeout: %v", err)
	}
	fill(t, b.reads)
	wantClock(t, b, 1)
	if n := b.Connections().Opened - opened; n != 0 {
		t.Errorf("%d connections were opened anew after one slow read", n)
	}
}

// TestSessionBounds checks the server's own timeouts, for a process that can no longer cancel, directly and over a
// pooler.
func TestSessionBounds(t *testing.T) {
	t.Parallel()
	direct := database(t)
	through := throughPooler(t)
	for name, dsn := range map[string]string{"direct": direct, "pooler": through(t)} {
		b := openTest(t, Config{DSN: dsn})
		var got string
		ask := func(sql string) {
			t.Helper()
			err := b.reads.query(t.Context(), "ask", nil, func(s *scanner) error { got = s.text(); return nil }, sql)
			if err != nil {
				t.Fatal(err)
			}
		}
		if ask("SELECT current_setting('statement_timeout')"); got != "10s" {
			t.Errorf("%s: a read may take %s", name, got)
		}
		if err := b.Defragment(t.Context()); err != nil {
			t.Error(err)
		}
		for range 4 {
			if ask("SELECT current_setting('statement_timeout')"); got != "10s" {
				t.Errorf("%s: after a VACUUM a read may take %s", name, got)
			}
		}
	}
}

// TestCancelHitsNoOther ends the context of each of many short statements at about the moment when the statement ends.
// The next statements, whose contexts do not end, must not be cancelled instead.
func TestCancelHitsNoOther(t *testing.T) {
	t.Parallel()
	b := openTest(t, Config{DSN: database(t), MaxConns: 4})
	for i := range 60 {
		took := cancelDelay + time.Duration(i%20)*time.Millisecond/2
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_ = b.reads.query(ctx, "sleep", nil, func(*scanner) error { return nil }, "SELECT pg_sleep($1::float8)::text",
			took.Seconds())
		if err := b.reads.query(t.Context(), "ask", nil, func(*scanner) error { return nil },
			"SELECT pg_sleep(0.005)::text"); err != nil {
			t.Fatalf("the next statement: %v", err)
		}
		cancel()
	}
}

// TestCancelledTail lets a read of the tail finish although a request to cancel it was sent. The request may hit the
// next statement on the connection, so that must not be a COMMIT.
func TestCancelledTail(t *testing.T) {
	b := openTest(t, Config{DSN: database(t)})
	held := begin(t, b, backend.Needs{}).(*tx)
	linkOf(held.c.Conn()).cancelled = true
	if _, err := held.Tail(t.Context(), backend.TailQuery{Limit: 1}); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a tail that a request may outlast: %v", err)
	}
	held.Rollback()
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("a", 2)); err != nil {
		t.Error(err)
	}
}

// TestUrgentRead makes a batch read while a renewal waits for a lease that the batch has locked, and other reads hold
// all connections: the batch gets the first one that is released, or a spare one for control statements.
func TestUrgentRead(t *testing.T) {
	for conns, hang := range map[int]bool{4: false, 5: true, 6: true} {
		t.Run(strconv.Itoa(conns), func(t *testing.T) {
			dsn := database(t)
			b := openTest(t, Config{DSN: dsn, MaxConns: conns})
			grant := &backend.Effects{Revision: 1, Granted: []backend.Lease{{ID: 7, TTL: time.Hour}}}
			if err := begin(t, b, backend.Needs{}).Commit(t.Context(), grant); err != nil {
				t.Fatal(err)
			}
			held := begin(t, b, backend.Needs{Leases: []int64{7}})
			renewed := make(chan error, 1)
			go func() {
				_, err := b.RenewLeases(t.Context(), []int64{7})
				renewed <- err
			}()
			eventually(t, "the renewal waits for the lease", func() bool { return waiting(t, dsn) == 1 })
			if _, err := b.Size(backend.Urgent(t.Context())); err != nil {
				t.Error(err)
			}
			acquired := acquireAll(t, b.reads)
			read := make(chan error, 1)
			go func() {
				_, err := b.Size(backend.Urgent(t.Context()))
				read <- err
			}()
			if !hang {
				time.AfterFunc(100*time.Millisecond, acquired[0].Release) // it most likely waits by then
				acquired = acquired[1:]
			}
			if err := <-read; err != nil {
				t.Error(err)
			}
			if waiting(t, dsn) != 1 {
				t.Error("the renewal timed out before the batch could read")
			}
			if err := held.Commit(t.Context(), row("a", 2)); err != nil {
				t.Error(err)
			}
			if err := <-renewed; err != nil {
				t.Error(err)
			}
			for _, c := range acquired {
				c.Release()
			}
		})
	}
}

// TestUrgentReadAcquiresNoMore makes many urgent reads wait for two kinds of connections: each is released.
func TestUrgentReadAcquiresNoMore(t *testing.T) {
	b := openTest(t, Config{DSN: database(t), MaxConns: 4})
	acquired := acquireAll(t, b.reads)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := b.Size(backend.Urgent(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	for _, c := range acquired {
		c.Release()
	}
	wg.Wait()
	eventually(t, "all connections are given back", func() bool {
		return b.reads.pool.Stat().AcquiredConns() == 0 && b.control.pool.Stat().AcquiredConns() == 0
	})
	begin(t, b, backend.Needs{}).Rollback()
}
