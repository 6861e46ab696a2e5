package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// row is one that can be committed at a revision.
func row(key string, revision int64) *backend.Effects {
	return &backend.Effects{Batch: 1, Revision: revision, Rows: []backend.Row{
		{Key: []byte(key), Value: []byte("v"), ModRevision: revision, CreateRevision: revision, Version: 1},
	}}
}

func begin(t *testing.T, b *Backend, n backend.Needs) backend.Tx {
	t.Helper()
	tx, err := b.Begin(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// admin runs a statement outside of any transaction.
func admin(t *testing.T, dsn, sql string, into ...any) {
	t.Helper()
	ctx := context.Background() // also for cleanup
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	if len(into) > 0 {
		err = c.QueryRow(ctx, sql).Scan(into...)
	} else {
		_, err = c.Exec(ctx, sql)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// eventually polls until done, or fails.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline, tick := time.After(20*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in vain: %s", what)
		}
	}
}

func wantClock(t *testing.T, b *Backend, revision int64) {
	t.Helper()
	if c, err := b.Clock(t.Context()); err != nil || c.Revision != revision {
		t.Errorf("clock %+v, %v; want revision %d", c, err, revision)
	}
}

// wantStandby makes commits wait for a standby that does not exist, and returns when they do: the server's processes
// pick up a setting at different times.
func wantStandby(t *testing.T, s *pgserver.Server) {
	t.Helper()
	admin(t, s.DSN(), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	admin(t, s.DSN(), "SELECT pg_reload_conf()", new(bool))
	c, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	pid, done := c.PgConn().PID(), make(chan error, 1)
	commit := func() {
		_, err := c.Exec(t.Context(), "SELECT pg_logical_emit_message(true, '', '')")
		done <- err
	}
	go commit()
	eventually(t, "a commit waits for the standby", func() bool {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			go commit() // it did not wait
			return false
		default:
		}
		n := 0
		admin(t, s.DSN(), fmt.Sprintf("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = "+
			"'SyncRep' AND pid = %d", pid), &n)
		return n > 0
	})
	if err := <-done; err != nil { // a warning is all there is
		t.Fatal(err)
	}
}

// TestCommitIsNeverCancelled makes a COMMIT wait for a standby that does not exist. Its outcome is unknown, and the
// server must keep waiting: if it were cancelled, others would see a write that no standby has.
func TestCommitIsNeverCancelled(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			dsn := s.Database(t)
			b := openTest(t, Config{DSN: with(dsn, "default_query_exec_mode", mode)})
			b.commitTimeout = 200 * time.Millisecond
			begin(t, b, backend.Needs{}).Rollback() // so that the statements are prepared
			waiting := func() (n int) {
				admin(t, s.DSN(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname <> "+
					"'postgres'", &n)
				return n
			}
			wantStandby(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err := begin(t, b, backend.Needs{}).Commit(ctx, row("a", 2))
			if !errors.Is(err, backend.ErrUnknownOutcome) {
				t.Errorf("commit without a standby: %v", err)
			}
			// Longer than statement_timeout, which must not end it, either.
			began := time.Now()
			eventually(t, "the commit outlasts every bound", func() bool {
				if n := waiting(); n != 1 {
					t.Fatalf("%d commits wait for the standby, want 1", n)
				}
				return time.Since(began) > lockedTimeout+time.Second
			})
			wantClock(t, b, 1) // reads continue and do not see it
			admin(t, s.DSN(), "ALTER SYSTEM RESET synchronous_standby_names")
			admin(t, s.DSN(), "SELECT pg_reload_conf()", new(bool))
			tx := begin(t, b, backend.Needs{}) // a transaction with the lock sees it
			if r := tx.Loaded().Clock.Revision; r != 2 {
				t.Errorf("revision %d under the lock", r)
			}
			tx.Rollback()
		})
	}
}

// TestCancelledCommit cancels the wait for the standby as an administrator would: the server answers COMMIT, with a
// warning.
func TestCancelledCommit(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	b := openTest(t, Config{DSN: s.Database(t)})
	wantStandby(t, s)
	got := make(chan error, 1)
	tx := begin(t, b, backend.Needs{})
	go func() { got <- tx.Commit(context.Background(), row("a", 2)) }()
	eventually(t, "the commit is cancelled", func() bool {
		n := 0
		admin(t, s.DSN(), "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' "+
			"AND datname <> 'postgres'", &n)
		return n > 0
	})
	if err := <-got; !errors.Is(err, backend.ErrUnknownOutcome) || !strings.Contains(err.Error(), "warning") {
		t.Errorf("cancelled commit: %v", err)
	}
	admin(t, s.DSN(), "ALTER SYSTEM RESET synchronous_standby_names")
	admin(t, s.DSN(), "SELECT pg_reload_conf()", new(bool))
}

// TestServerReconnects restarts the server under open connections, and kills it between the two round trips.
func TestServerReconnects(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	b := openTest(t, Config{DSN: s.Database(t)})
	wantClock(t, b, 1)
	begin(t, b, backend.Needs{}).Rollback()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	wantClock(t, b, 1)
	tx := begin(t, b, backend.Needs{})
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context(), row("a", 2)); !errors.Is(err, backend.ErrUnknownOutcome) &&
		!errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("commit on a killed server: %v", err)
	}
	if _, err := b.Clock(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("clock of a killed server: %v", err)
	}
	if _, err := b.Begin(t.Context(), backend.Needs{}); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("begin on a killed server: %v", err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	tx = begin(t, b, backend.Needs{})
	if err := tx.Commit(t.Context(), row("a", tx.Loaded().Clock.Revision+1)); err != nil {
		t.Error(err)
	}
}

// TestUnresponsiveServer pauses the server: everything ends with ErrUnavailable within its timeout, or when the context
// does.
func TestUnresponsiveServer(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	b := openTest(t, Config{DSN: s.Database(t)})
	b.commitTimeout = time.Second
	wantClock(t, b, 1)
	tx := begin(t, b, backend.Needs{})
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.Clock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("clock with a deadline: %v", err)
	}
	if err := tx.Commit(t.Context(), row("a", 2)); !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Errorf("commit: %v", err)
	}
	if _, err := b.Clock(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("clock: %v", err)
	}
	if _, err := b.Begin(t.Context(), backend.Needs{}); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("begin: %v", err)
	}
	if err := s.Unpause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is used again", func() bool {
		tx, err := b.Begin(t.Context(), backend.Needs{})
		if err != nil {
			return false
		}
		return tx.Commit(t.Context(), row("b", tx.Loaded().Clock.Revision+1)) == nil
	})
}

// TestReadOnly makes the server refuse writes, like a primary that is demoted while it has connections.
func TestReadOnly(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	tx := begin(t, b, backend.Needs{})
	tx.Rollback()
	c := b.writer.Conn()
	if _, err := c.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Begin(t.Context(), backend.Needs{}); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("begin where nothing can be written: %v", err)
	}
	if !c.IsClosed() {
		t.Error("the connection to a server that is not the primary stays open")
	}
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(), row("a", 2)); err != nil {
		t.Error(err)
	}
}

func TestUnsuitable(t *testing.T) {
	dsn := database(t)
	for param, want := range map[string]string{
		"synchronous_commit":            "synchronous_commit=off",
		"default_transaction_read_only": "read-only by default",
		"search_path":                   "CREATE SCHEMA",
	} {
		value := map[string]string{
			"synchronous_commit": "off", "default_transaction_read_only": "on",
			"search_path": "nowhere",
		}[param]
		_, err := Open(t.Context(), Config{DSN: with(dsn, param, value)})
		if !errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v", param, value, err)
		}
	}
	openTest(t, Config{DSN: with(dsn, "synchronous_commit", "off"), UnsafeNoFsync: true})
}

// TestSchemas keeps two stores in two schemas of one database.
func TestSchemas(t *testing.T) {
	dsn := database(t)
	admin(t, dsn, "CREATE SCHEMA one")
	admin(t, dsn, "CREATE SCHEMA two")
	public := openTest(t, Config{DSN: dsn})
	one, two := openTest(t, Config{DSN: with(dsn, "search_path", "one,public")}),
		openTest(t, Config{DSN: with(dsn, "search_path", "two")})
	if err := begin(t, one, backend.Needs{}).Commit(t.Context(), row("a", 2)); err != nil {
		t.Fatal(err)
	}
	wantClock(t, public, 1)
	wantClock(t, one, 2)
	wantClock(t, two, 1)
}

// TestDeadIdleConnections ends all connections while they are idle: the next statements succeed all the same.
func TestDeadIdleConnections(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	if err := begin(t, b, backend.Needs{}).Commit(t.Context(),
		&backend.Effects{Batch: 1, Revision: 1, Granted: []backend.Lease{{ID: 7, TTL: time.Hour}}}); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"renew": func() error {
			renewed, err := b.RenewLeases(t.Context(), []int64{7})
			if err == nil && len(renewed) != 1 {
				err = fmt.Errorf("renewed %v", renewed)
			}
			return err
		},
		"heartbeat": func() error {
			_, err := b.Heartbeat(t.Context(), backend.Member{ID: 1}, time.Hour, time.Hour)
			return err
		},
		"pin":   func() error { _, err := b.Pin(t.Context(), 1, time.Minute); return err },
		"read":  func() error { _, err := b.Clock(t.Context()); return err },
		"write": func() error { begin(t, b, backend.Needs{}).Rollback(); return nil },
	} {
		if err := f(); err != nil { // it has a connection
			t.Fatalf("%s: %v", name, err)
		}
		ended := 0
		admin(t, dsn, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = "+
			"current_database() AND application_name = 'sqlstore'", &ended)
		if ended == 0 {
			t.Fatal("there was no connection to end")
		}
		if err := f(); err != nil {
			t.Errorf("%s after all connections died: %v", name, err)
		}
	}
}

// TestServerBecomesWeak turns fsync off while the server runs: the backend writes nothing to it until fsync is on
// again.
func TestServerBecomesWeak(t *testing.T) {
	t.Parallel() // it waits most of its time
	s := pgserver.Start(t, pgserver.Options{})
	dsn := s.Database(t)
	var log logged
	b, careless := openTest(t, Config{DSN: dsn, Logger: log.logger()}),
		openTest(t, Config{DSN: dsn, UnsafeNoFsync: true})
	beat := func(b *Backend) {
		t.Helper()
		if _, err := b.Heartbeat(t.Context(), backend.Member{ID: 1}, time.Hour, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	set := func(value, weak string) {
		t.Helper()
		admin(t, s.DSN(), "ALTER SYSTEM SET fsync = "+value)
		admin(t, s.DSN(), "SELECT pg_reload_conf()", new(bool))
		eventually(t, "fsync="+value+" is noticed",
			func() bool { beat(b); beat(careless); return b.NotDurable() == weak })
	}
	set("off", "fsync=off")
	if _, err := b.Begin(t.Context(), backend.Needs{}); !errors.Is(err, backend.ErrUnavailable) ||
		!strings.Contains(err.Error(), "fsync=off") {
		t.Errorf("a write to a server that may lose it: %v", err)
	}
	wantClock(t, b, 1)
	if weak := careless.NotDurable(); weak != "" {
		t.Errorf("%s is reported although --unsafe-no-fsync accepts it", weak)
	}
	begin(t, careless, backend.Needs{}).Rollback()
	b.resetPools() // a new connection reports it, too
	b.weak.Store(new(string))
	wantClock(t, b, 1)
	if weak := b.NotDurable(); weak != "fsync=off" {
		t.Errorf("a new connection reports %q", weak)
	}
	set("on", "")
	begin(t, b, backend.Needs{}).Rollback()
	if n := log.count("nothing is written to it"); n != 2 {
		t.Errorf("logged %d times that nothing is written", n)
	}
}
