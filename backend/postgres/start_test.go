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

// A start that cannot migrate because of others' locks can be retried.
func TestStartWithoutLocks(t *testing.T) {
	dsn := pgserver.Database(t)
	cfg := Config{DSN: dsn}
	if err := openTest(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	older := func(ctx context.Context, db *sql.DB) error { return schema.Down(ctx, db, 1) }
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
