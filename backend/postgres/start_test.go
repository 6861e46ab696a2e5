package postgres

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/schema"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

// older takes the schema back to before the checksums, without which no statement of this program works.
func older(ctx context.Context, db *sql.DB) error { return schema.Down(ctx, db, 3) }

// A start that cannot migrate because of others' locks can be retried.
func TestStartWithoutLocks(t *testing.T) {
	t.Parallel()
	dsn := pgserver.Database(t)
	cfg := Config{DSN: dsn}
	if err := openTest(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	if err := WithDatabase(t.Context(), cfg, older); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	// The version can be read, but not changed.
	if _, err := c.Exec(t.Context(), "BEGIN; LOCK TABLE schema_migrations IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	b, err := Open(ctx, cfg)
	if !errors.Is(err, backend.ErrUnavailable) || !errors.Is(err, schema.ErrLocked) {
		t.Errorf("a start that gets no lock: %v", err)
	}
	if err == nil {
		_ = b.Close()
	}
}

// TestDatabaseOfAnOlderVersion puts a copy from before the migration in the place of a running replica's database, as a
// restored backup may.
func TestDatabaseOfAnOlderVersion(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	if err := WithDatabase(t.Context(), Config{DSN: dsn}, older); err != nil {
		t.Fatal(err)
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
func TestFailedStartLeavesNothing(t *testing.T) {
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
