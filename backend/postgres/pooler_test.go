package postgres

import (
	"bytes"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/backendtest"
	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/pgbouncer"
)

// logged counts a Backend's log lines by message.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), part)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// TestPooler runs the suites through a PgBouncer that gives each transaction another connection: with the DSN's
// parameter for it, and without.
func TestPooler(t *testing.T) {
	t.Parallel()
	through := throughPooler(t)
	t.Run("unnamed", func(t *testing.T) {
		var log logged
		b := openTest(t, Config{DSN: through(t), Logger: log.logger()})
		if mode := b.reads.pool.Config().ConnConfig.DefaultQueryExecMode; mode != pgx.QueryExecModeCacheStatement {
			t.Errorf("the DSN names mode %v", mode)
		}
		if n := log.count("a pooler stands before the database server"); n != 1 || !b.pooled.Load() {
			t.Errorf("logged %d times that there is a pooler, found: %t", n, b.pooled.Load())
		}
		backendtest.RunShared(t, func(t *testing.T) (a, b backend.Shared) {
			dsn := through(t)
			return openTest(t, Config{DSN: dsn}), openTest(t, Config{DSN: dsn})
		}, backendtest.SharedHooks{NoHints: true, Only: sharedInPart()})
	})
	t.Run("limits", func(t *testing.T) { // the server's are for the pooler's connections
		b := openTest(t, Config{DSN: with(through(t), "default_query_exec_mode", "exec"), MaxConns: 1000})
		if got := b.Connections().Max; got != 999 {
			t.Errorf("%d connections to a pooler", got)
		}
	})
	t.Run("closed", func(t *testing.T) { // a pooler says so when it needs a connection
		dsn := through(t)
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if err := openTest(t, Config{DSN: dsn}).Close(); err != nil {
			t.Fatal(err)
		}
		name := strings.Trim(u.Path, "/")
		admin(t, database(t), "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
		admin(t, database(t), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "+
			"WHERE datname = '"+name+"'", new(int64))
		eventually(t, "the pooler's answer is reported", func() bool {
			b, err := Open(t.Context(), Config{DSN: dsn})
			if err == nil {
				_ = b.Close()
				return false
			}
			return strings.Contains(err.Error(), "not currently accepting connections") ||
				strings.Contains(err.Error(), "server login has been failing")
		})
	})
	modes := []string{"simple_protocol"}
	if env.Whole.Text() != "" {
		modes = append(modes, "exec") // as the Backend does by itself, under "unnamed"
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T) backend.Backend {
				return openTest(t, Config{DSN: with(through(t), "default_query_exec_mode", mode)})
			}, backendtest.Hooks{Reopen: reopen, Execute: execute, View: view, Only: inPart()})
		})
	}
}

// throughPooler returns a function that makes databases and returns DSNs which lead through one pooler.
func throughPooler(t *testing.T) func(t *testing.T) string {
	first := database(t)
	pooler := pgbouncer.Before(t, first)
	return func(t *testing.T) string {
		t.Helper()
		to, err := url.Parse(pooler)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(database(t))
		if err != nil {
			t.Fatal(err)
		}
		u.Host = to.Host
		return u.String()
	}
}

// TestNoPooler opens a server without a pooler.
func TestNoPooler(t *testing.T) {
	if b := openTest(t, Config{DSN: database(t)}); b.pooled.Load() {
		t.Error("found a pooler where there is none")
	}
}
