package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// TestClockHeld waits for the clock in vain, and gets an error that is more specific than that the database is
// unavailable: the caller may wait again. A statement that is slow after it has the lock does not get it.
func TestClockHeld(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if _, err := c.Exec(t.Context(), "BEGIN; SELECT 1 FROM clock FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	bounds := b.features.bounds
	for _, bound := range []string{"statement_timeout", "lock_timeout"} {
		b.features.bounds = "SELECT set_config('" + bound + "', '50', true)"
		_, err := b.Begin(t.Context(), backend.Needs{})
		if !errors.Is(err, backend.ErrClockHeld) || !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s ends the wait: %v", bound, err)
		}
	}
	if _, err := c.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	b.features.bounds = "SELECT set_config('statement_timeout', '500', true)"
	tail := b.features.tail
	b.features.tail[0][0] = tail[0][0] + " WHERE pg_sleep(5) IS NOT NULL"
	_, err = b.Begin(t.Context(), backend.Needs{Tail: &backend.TailQuery{Limit: 1}})
	if errors.Is(err, backend.ErrClockHeld) || !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a slow statement that has the lock: %v", err)
	}
	b.features.bounds, b.features.tail = bounds, tail
	begin(t, b, backend.Needs{}).Rollback()
}
