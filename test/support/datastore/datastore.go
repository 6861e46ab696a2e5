// Package datastore starts sqlstore servers over the database that the environment names, for the suites that must pass
// over every database:
//
//	SQLSTORE_TEST_DATASTORE   "sqlite" or unset: a separate file for each server
//	                          "postgres": an empty database for each call of Start, on a server of package pgserver
//	                          postgres://...: this database, whatever it contains
//	SQLSTORE_TEST_REPLICAS    number of servers over one Postgres database (default 1)
//	SQLSTORE_TEST_PGBOUNCER   1: a PgBouncer in transaction mode between them and Postgres
package datastore

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgbouncer"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// Choice says where the servers of a test keep their data.
type Choice struct {
	// Postgres reports whether it is a Postgres database rather than a SQLite file.
	Postgres bool
	// DSN names an existing database; "" creates an empty one for each Start.
	DSN string
	// Replicas is how many servers share it, at least 1.
	Replicas int
	// PgBouncer reports whether they connect through a PgBouncer.
	PgBouncer bool
}

// FromEnv returns the environment's choice. The test fails if that is invalid.
func FromEnv(tb testing.TB) Choice {
	tb.Helper()
	c, err := parse(env.Variable.Text)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func parse(value func(env.Variable) string) (Choice, error) {
	c := Choice{Replicas: 1}
	switch s := value(env.Datastore); {
	case s == "" || s == "sqlite":
	case s == "postgres":
		c.Postgres = true
	case strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://"):
		c.Postgres, c.DSN = true, s
	default: // not shown: it may be a mistyped DSN
		return c, fmt.Errorf("%s: want sqlite, postgres or postgres://", env.Datastore)
	}
	if s := value(env.Replicas); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return c, fmt.Errorf("%s is %q, want a number above 0", env.Replicas, s)
		}
		c.Replicas = n
	}
	switch s := value(env.PgBouncer); s {
	case "", "0":
	case "1":
		c.PgBouncer = true
	default:
		return c, fmt.Errorf("%s is %q, want 1 or unset", env.PgBouncer, s)
	}
	if !c.Postgres && (c.Replicas > 1 || c.PgBouncer) {
		return c, fmt.Errorf("%s and %s are for Postgres: set %s=postgres", env.Replicas,
			env.PgBouncer, env.Datastore)
	}
	return c, nil
}

// Start starts the chosen number of servers over the chosen datastore, concurrently, and waits until all are ready. cfg
// is the configuration of each; its DataDir only makes sense for a single server.
func (c Choice) Start(tb testing.TB, cfg launch.Config) []*launch.Server {
	tb.Helper()
	args := c.flags(tb)
	servers, errs := make([]*launch.Server, c.Replicas), make([]error, c.Replicas)
	launch.Binary(tb) // built first, because building fails the test
	var wg sync.WaitGroup
	for i := range servers {
		own := cfg
		own.Args = slices.Concat(args, cfg.Args)
		if c.Replicas > 1 {
			own.Args = slices.Concat(args, []string{"--name", fmt.Sprintf("replica-%d", i+1)}, cfg.Args)
		}
		wg.Go(func() { servers[i], errs[i] = launch.TryStart(tb, own) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			tb.Fatalf("datastore: %v", err)
		}
	}
	if len(servers) > 1 {
		acquaint(tb, servers)
	}
	return servers
}

// flags returns the flags of a server over the datastore, which it creates if needed.
func (c Choice) flags(tb testing.TB) []string {
	tb.Helper()
	if !c.Postgres {
		return nil
	}
	dsn := c.DSN
	if dsn == "" {
		dsn = pgserver.Database(tb)
	}
	if c.PgBouncer {
		dsn = pgbouncer.Before(tb, dsn)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatalf("%s is not a URL", env.Datastore)
	}
	password, ok := u.User.Password()
	if !ok {
		return []string{"--datastore", dsn}
	}
	// Not among the arguments, which all users of the machine see.
	file := filepath.Join(tb.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	u.User = url.User(u.User.Username())
	return []string{"--datastore", u.String(), "--datastore-password-file", file}
}

// Endpoints returns host:port of the servers' gRPC listeners.
func Endpoints(servers []*launch.Server) []string {
	endpoints := make([]string, len(servers))
	for i, s := range servers {
		endpoints[i] = s.Endpoint()
	}
	return endpoints
}
