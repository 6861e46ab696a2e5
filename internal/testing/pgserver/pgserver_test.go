package pgserver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/images"
)

// kinds are the ways to run a server that this machine has.
func kinds(t *testing.T) map[string]func(context.Context, Options) (node, error) {
	t.Helper()
	found := map[string]func(context.Context, Options) (node, error){}
	if _, err := images.Find(); err == nil {
		found["container"] = func(ctx context.Context, o Options) (node, error) { return newContainer(ctx, o) }
	} else {
		t.Logf("without containers: %v", err)
	}
	if _, err := findBinaries(env.PostgresVersion.Text()); err == nil {
		found["binaries"] = func(_ context.Context, o Options) (node, error) { return newLocal(o) }
	} else {
		t.Logf("without binaries: %v", err)
	}
	if len(found) == 0 {
		t.Fatal("neither a container engine nor Postgres binaries: install one of them")
	}
	return found
}

// each runs a test against a server of every kind.
func each(t *testing.T, o Options, test func(*testing.T, *Server)) {
	for name, kind := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			s, err := start(o, kind)
			if err != nil {
				t.Fatal(err)
			}
			s.removeAfter(t)
			test(t, s)
		})
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

func insert(t *testing.T, dsn string, i int) {
	t.Helper()
	conn := connect(t, dsn)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS t (i int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO t VALUES ($1)", i); err != nil {
		t.Fatal(err)
	}
}

func wantSum(t *testing.T, dsn string, want int) {
	t.Helper()
	var got int
	if err := connect(t, dsn).QueryRow(t.Context(), "SELECT sum(i) FROM t").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("the sum of the rows is %d, want %d", got, want)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDatabasesAreApart(t *testing.T) {
	a, b := Database(t), Database(t)
	insert(t, a, 1)
	insert(t, b, 2)
	wantSum(t, a, 1)
	wantSum(t, b, 2)
}

// TestServer runs one server of each kind through its life.
func TestServer(t *testing.T) {
	t.Parallel()
	each(t, Options{Settings: []string{"max_connections=17", "application_name=two words"}},
		func(t *testing.T, s *Server) {
			for _, c := range []struct {
				name string
				test func(*testing.T, *Server)
			}{
				{"DatabaseIsDropped", testDatabaseIsDropped},
				{"Settings", testSettings},
				{"RestartKeepsData", testRestartKeepsData},
				{"KillKeepsWhatWasCommitted", testKillKeepsWhatWasCommitted},
				{"PausedServerAnswersNobody", testPausedServerAnswersNobody},
			} {
				t.Run(c.name, func(t *testing.T) { c.test(t, s) })
			}
		})
}

func testDatabaseIsDropped(t *testing.T, s *Server) {
	var dsn string
	t.Run("inner", func(t *testing.T) { dsn = s.Database(t); insert(t, dsn, 1) })
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Fatal("the database still exists")
	}
}

func testSettings(t *testing.T, s *Server) {
	conn := connect(t, s.DSN())
	for setting, want := range map[string]string{
		"max_connections": "17", "application_name": "two words", "fsync": "on",
	} {
		var got string
		check(t, conn.QueryRow(t.Context(), "SELECT setting FROM pg_settings WHERE name = $1", setting).Scan(&got))
		if got != want {
			t.Errorf("%s is %q, not %q", setting, got, want)
		}
	}
}

func testRestartKeepsData(t *testing.T, s *Server) {
	dsn := s.Database(t)
	insert(t, dsn, 1)
	check(t, s.Stop())
	if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
		_ = conn.Close(t.Context())
		t.Fatal("the stopped server takes connections")
	}
	check(t, s.Start())
	insert(t, dsn, 2)
	check(t, s.Restart())
	wantSum(t, dsn, 3)
}

func testKillKeepsWhatWasCommitted(t *testing.T, s *Server) {
	dsn := s.Database(t)
	for i := range 2 {
		insert(t, dsn, 1)
		open := connect(t, dsn)
		check(t, s.Kill())
		if err := open.Ping(t.Context()); err == nil {
			t.Fatal("a connection is still open")
		}
		check(t, s.Start())
		wantSum(t, dsn, i+1)
	}
}

func testPausedServerAnswersNobody(t *testing.T, s *Server) {
	dsn := s.Database(t)
	insert(t, dsn, 1)
	open := connect(t, dsn)
	check(t, s.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(ctx, dsn); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a new connection to a paused server: %v, not a timeout", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := open.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an open connection to a paused server: %v, not a timeout", err)
	}
	check(t, s.Unpause())
	wantSum(t, dsn, 1)
}

// A commit waits for the standby, which then takes over.
func TestStandby(t *testing.T) {
	t.Parallel()
	each(t, Options{}, func(t *testing.T, primary *Server) {
		insert(t, primary.DSN(), 1)
		standby := primary.Standby(t)
		check(t, standby.Pause())
		conn := connect(t, primary.DSN())
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := conn.Exec(ctx, "INSERT INTO t VALUES (0)"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a commit without the standby: %v, not a timeout", err)
		}
		check(t, primary.Asynchronous())
		insert(t, primary.DSN(), 2)
		check(t, standby.Unpause())
		check(t, primary.synchronous(t.Context(), "standby"))
		insert(t, primary.DSN(), 4)
		check(t, primary.Kill())
		check(t, standby.Promote())
		insert(t, standby.DSN(), 8)
		wantSum(t, standby.DSN(), 15)
	})
}
