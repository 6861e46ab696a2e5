// Package pgserver starts real Postgres servers for tests: [Database] for an empty database on a server shared by the
// tests of a process, [Start] for a dedicated server, to be stopped, killed, paused or followed by a standby. For tests
// only.
//
// The servers come from, in this order; the first use in a process logs which:
//
//  1. SQLSTORE_TEST_POSTGRES, the DSN of a user who may create databases, roles and replication slots; for [Database]
//     only.
//  2. A container engine. SQLSTORE_TEST_POSTGRES_IMAGE names the image. By default it is that of
//     SQLSTORE_TEST_POSTGRES_VERSION (15), pulled or built by package images.
//  3. The machine's Postgres binaries, of SQLSTORE_TEST_POSTGRES_VERSION if set. Under root they run as the user
//     postgres or nobody.
//
// If there are none, the test fails and says what to install. Servers of [Start] sync to disk (fsync=on). The shared
// one in a container has its data in memory, as it is never restarted. Servers listen on the
// loopback interface if that reaches the tests. None outlives its test process, however that ends: see package guard.
package pgserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// databaseTimeout limits the creation and the removal of a database.
const databaseTimeout = time.Minute

// shared is the server of all tests of the process. It ends with the process.
var shared struct {
	once sync.Once
	dsn  string
	from string
	err  error

	mu   sync.Mutex
	conn *pgx.Conn // creates and drops databases
}

// createDatabase begins from template0, which has no connections.
const createDatabase = "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'"

// Database creates a database for the test and returns its DSN (postgres://...). It is dropped when the test ends.
func Database(tb testing.TB) string {
	tb.Helper()
	shared.once.Do(func() {
		if shared.dsn = env.Postgres.Text(); shared.dsn != "" {
			shared.from = "the server of SQLSTORE_TEST_POSTGRES"
		} else {
			var s *Server
			if s, shared.err = start(Options{Memory: true}, newNode); shared.err != nil {
				return
			}
			shared.dsn, shared.from = s.DSN(), s.node.describe()
		}
		tb.Logf("pgserver: databases on %s", shared.from)
	})
	if shared.err != nil {
		tb.Fatalf("pgserver: %v", shared.err)
	}
	return database(tb, shared.dsn, executeShared)
}

// database creates a database on the server of dsn and drops it at the end of the test.
func database(tb testing.TB, dsn string, execute func(statement string) error) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	if err := execute(fmt.Sprintf(createDatabase, name)); err != nil {
		tb.Fatalf("pgserver: create a database: %v", err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal("pgserver: the server's DSN must be a URL, postgres://user@host/database")
	}
	tb.Cleanup(func() {
		if err := execute("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Logf("pgserver: drop the test's database: %v", err)
		}
	})
	u.Path = "/" + name
	return u.String()
}

// executeShared runs one statement on the shared server, over a connection of its own that stays open: there are
// hundreds of databases.
func executeShared(statement string) error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
	defer cancel()
	if shared.conn == nil || shared.conn.IsClosed() {
		conn, err := pgx.Connect(ctx, shared.dsn)
		if err != nil {
			return err
		}
		shared.conn = conn
	}
	if _, err := shared.conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// LockTable locks a table of the database of dsn against all other sessions, until unlock is called or the test ends.
func LockTable(tb testing.TB, dsn, table string) (unlock func()) {
	tb.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		tb.Fatalf("pgserver: %v", err)
	}
	unlock = func() { _ = conn.Close(ctx) } // ends the transaction
	tb.Cleanup(unlock)
	if _, err := conn.Exec(ctx, "BEGIN; LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		tb.Fatalf("pgserver: lock %s: %v", table, err)
	}
	return unlock
}

// execute runs one statement over a new connection.
func execute(dsn, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
