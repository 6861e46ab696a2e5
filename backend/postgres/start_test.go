package postgres

import (
	"context"
	"database/sql"
	"errors"
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
