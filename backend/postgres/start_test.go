package postgres

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/schema"
)

// A start that cannot migrate because of others' locks can be retried.
func TestStartWithoutLocks(t *testing.T) {
	t.Parallel()
	dsn := pgserver.Database(t)
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	// The version can be read, but not changed.
	if _, err := c.Exec(t.Context(), "CREATE TABLE schema_migrations (version integer NOT NULL PRIMARY KEY, "+
		"dirty boolean NOT NULL); BEGIN; LOCK TABLE schema_migrations IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	b, err := Open(ctx, Config{DSN: dsn})
	if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, schema.ErrLocked) {
		t.Errorf("a start that gets no lock: %v", err)
	}
	if err == nil {
		_ = b.Close()
	}
}

// TestDatabaseOfAnOlderVersion takes away columns of a running replica's database, as a backup of an older version does
// that is restored meanwhile.
func TestDatabaseOfAnOlderVersion(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	for _, column := range []string{"object_versions DROP COLUMN checksum", "clock DROP COLUMN written_at"} {
		admin(t, dsn, "ALTER TABLE "+column)
	}
	if _, err := b.Tail(t.Context(), backend.TailQuery{After: 1, Limit: 10}); !errors.Is(err, ErrOldSchema) ||
		!errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a tail: %v", err)
	}
	if _, err := b.Begin(t.Context(), backend.Needs{}); !errors.Is(err, ErrOldSchema) {
		t.Errorf("a write: %v", err)
	}
}

// A start that fails leaves neither connections nor goroutines, at whatever step it fails.
func TestFailedStartReleasesEverything(t *testing.T) {
	for name, spoil := range map[string]struct {
		sql  string // run in a database in which a server has started
		from func(dsn string) string
	}{
		"no schema": {"", func(dsn string) string { return with(dsn, "search_path", "nowhere") }},
		"a newer schema": {
			"UPDATE schema_migrations SET version = 1000; " +
				"UPDATE settings SET value = 1000 WHERE name = 'oldest_program'",
			func(dsn string) string { return dsn },
		},
		"no identity": {
			"CREATE RULE none AS ON INSERT TO settings DO INSTEAD SELECT 1 / 0; DELETE FROM settings",
			func(dsn string) string { return dsn },
		},
		"a read-only server": {"", func(dsn string) string { return with(dsn, "default_transaction_read_only", "on") }},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := database(t)
			if err := openTest(t, Config{DSN: dsn}).Close(); err != nil {
				t.Fatal(err)
			}
			if spoil.sql != "" {
				admin(t, dsn, spoil.sql)
			}
			before := runtime.NumGoroutine()
			b, err := Open(t.Context(), Config{DSN: spoil.from(dsn)})
			if err == nil {
				_ = b.Close()
				t.Fatal("it has started")
			}
			t.Log(err)
			eventually(t, "its goroutines end", func() bool { return runtime.NumGoroutine() <= before })
			eventually(t, "its sessions end", func() bool {
				sessions := 0
				admin(t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "+
					"AND application_name = 'sqlstore'", &sessions)
				return sessions == 0
			})
		})
	}
}
