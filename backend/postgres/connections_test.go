package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// A server that allows too few connections is refused. One that allows fewer than configured gets fewer, so that reads
// and writes have theirs.
func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	s := pgserver.Start(t, pgserver.Options{
		Settings: []string{"max_connections=20", "superuser_reserved_connections=3"},
	})
	few := userOf(t, s.Database(t))
	for n, want := range map[int]int{-1: 15, 100: 15, 17: 15, 9: 7, 5: 3} {
		few.limit(t, n)
		b, err := Open(t.Context(), Config{DSN: few.dsn, MaxConns: 16})
		if err != nil {
			t.Fatalf("a limit of %d: %v", n, err)
		}
		if got := b.Connections().Max; got != want {
			t.Errorf("a limit of %d: %d connections, want %d", n, got, want)
		}
		begin(t, b, backend.Needs{}).Rollback()
		wantClock(t, b, 1)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	few.limit(t, -1)
	b := openTest(t, Config{DSN: few.dsn, MaxConns: 50})
	if got := b.Connections().Max; got != 15 {
		t.Errorf("%d connections to a server that allows 17", got)
	}
	few.limit(t, 4)
	_, err := Open(t.Context(), Config{DSN: few.dsn})
	if !errors.Is(err, ErrUnsuitable) || errors.Is(err, backend.ErrUnavailable) ||
		!strings.Contains(err.Error(), "the user's CONNECTION LIMIT") {
		t.Errorf("a limit of 4: %v", err)
	}
}

// While others have all connections that the server allows, statements wait for those that this process has.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	crowd := userOf(t, database(t))
	b := openTest(t, Config{DSN: crowd.dsn})
	begin(t, b, backend.Needs{}).Rollback()
	wantClock(t, b, 1)
	if c := b.Connections(); !c.RefusedAt.IsZero() {
		t.Fatalf("a refusal without a limit: %+v", c)
	}
	crowd.limit(t, crowd.sessions(t))
	session := func() (pid int64) {
		t.Helper()
		err := b.reads.query(t.Context(), "ask", nil, func(s *scanner) error { pid = s.integer(); return nil },
			"SELECT pg_backend_pid()")
		if err != nil {
			t.Error(err)
		}
		return pid
	}
	before := session()
	slow := make(chan error, 20)
	for range cap(slow) {
		go func() {
			slow <- b.reads.query(t.Context(), "sleep", nil, func(*scanner) error { return nil },
				"SELECT pg_sleep(0.05)::text")
		}()
	}
	for range cap(slow) {
		if err := <-slow; err != nil {
			t.Errorf("a read: %v", err)
		}
	}
	if after := session(); after != before {
		t.Errorf("the only connection for reads was given up: session %d after %d", after, before)
	}
	if err := b.Defragment(t.Context()); err != nil {
		t.Error(err)
	}
	c := b.Connections()
	if c.RefusedAt.IsZero() || !strings.Contains(c.Refused, crowd.name) {
		t.Errorf("no refusal is known: %+v", c)
	}
	begin(t, b, backend.Needs{}).Rollback()
}

// The idle connections of one lane do not keep the other from its connection.
func TestIdleConnectionsAreEvicted(t *testing.T) {
	t.Parallel()
	few := userOf(t, database(t))
	b := openTest(t, Config{DSN: few.dsn})
	only := func(idle, none lane) {
		t.Helper()
		few.limit(t, -1)
		var held []*pgxpool.Conn
		for range 3 {
			c, err := idle.acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		for _, c := range held {
			c.Release()
		}
		none.pool.Reset()
		used := 0
		eventually(t, "one lane alone is connected", func() bool {
			used = few.sessions(t)
			return used == int(idle.pool.Stat().TotalConns())
		})
		few.limit(t, used)
	}
	only(b.reads, b.control)
	begin(t, b, backend.Needs{}).Rollback()
	b.dropWriter(false)
	only(b.control, b.reads)
	if _, err := b.Size(t.Context()); err != nil {
		t.Errorf("a read: %v", err)
	}
}

// Statements of control leave reads a connection, however many they are.
func TestReadsKeepOneConnection(t *testing.T) {
	t.Parallel()
	few := userOf(t, database(t))
	b := openTest(t, Config{DSN: few.dsn})
	few.limit(t, 3)
	b.resetPools()
	begin(t, b, backend.Needs{}).Rollback()
	ctx, cancel := context.WithCancel(t.Context())
	var control sync.WaitGroup
	for range 8 {
		control.Go(func() {
			for ctx.Err() == nil {
				if _, err := b.Clock(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	eventually(t, "control has all", func() bool { return b.control.pool.Stat().TotalConns() == 3 })
	for range 10 {
		if _, err := b.Size(t.Context()); err != nil {
			t.Errorf("a read: %v", err)
			break
		}
	}
	cancel()
	control.Wait()
}

// Those who wait for a connection of a full server get one in turn.
func TestWaitAtFullServer(t *testing.T) {
	t.Parallel()
	few := userOf(t, database(t))
	b := openTest(t, Config{DSN: few.dsn})
	b.resetPools()
	only, err := b.reads.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	few.limit(t, 0)
	var served atomic.Bool
	ended := make(chan error, 1)
	go func() {
		c, err := b.reads.acquire(t.Context())
		if err == nil {
			served.Store(true)
			b.reads.release(c, nil)
		}
		ended <- err
	}()
	eventually(t, "one waits", func() bool { return len(b.reads.first) == 1 })
	only.Release()
	if only, err = b.reads.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !served.Load() {
		t.Error("a later call is served first")
	}
	b.reads.release(only, nil)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Those who wait for a connection of a full server stop when the backend closes.
func TestCloseAtFullServer(t *testing.T) {
	t.Parallel()
	few := userOf(t, database(t))
	b := openTest(t, Config{DSN: few.dsn})
	few.limit(t, 0)
	b.resetPools()
	ended := make(chan error, 1)
	go func() {
		_, err := b.reads.acquire(t.Context())
		ended <- err
	}()
	eventually(t, "one waits", func() bool { return !b.Connections().RefusedAt.IsZero() })
	_ = b.Close()
	if err := <-ended; !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// A start does not wait for a full server: the caller reports it, and tries again.
func TestStartAtFullServer(t *testing.T) {
	t.Parallel()
	few := userOf(t, database(t))
	few.limit(t, 0)
	b, err := newBackend(Config{DSN: few.dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer b.closePools()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.fit(ctx); !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, ErrRefused) {
		t.Errorf("to read the limits: %v", err)
	}
}
