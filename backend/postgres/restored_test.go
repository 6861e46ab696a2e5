package postgres

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// A server that was restored to a point in time has begun a new timeline and keeps the target in its settings. This one
// has a target, and the store's note is changed to that of another timeline.
func TestRestoreShows(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Options{Settings: []string{"recovery_target_time=2026-01-01 00:00:00+00"}})
	dsn := server.Database(t)
	reopened := func(restored bool, statements ...string) *Backend {
		t.Helper()
		b := openTest(t, Config{DSN: dsn})
		for _, sql := range statements {
			if _, err := b.control.pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = openTest(t, Config{DSN: dsn})
		if got := b.Restored(); (got.Evidence != "") != restored ||
			restored && !strings.Contains(got.Evidence, "recovery_target_time = '2026-01-01 00:00:00+00'") {
			t.Errorf("after %q: %+v", statements, got)
		}
		return b
	}
	reopened(false)
	b := reopened(true, "UPDATE settings SET value = value - 1 WHERE name = 'home_timeline'")
	reopened(true) // it stays so
	if err := b.Raised(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.Restored(); got.Evidence != "" {
		t.Errorf("after the revision was raised: %+v", got)
	}
	reopened(false)
	reopened(true, "DELETE FROM settings WHERE name LIKE 'home%'") // as a server left it that does not say where it is
}

// Without a target, a change of the timeline may be a promotion: it is logged once.
func TestMoveIsLogged(t *testing.T) {
	dsn := database(t)
	opened := func() string {
		t.Helper()
		var log bytes.Buffer
		b := openTest(t, Config{DSN: dsn, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if got := b.Restored(); got.Evidence != "" {
			t.Errorf("restored: %+v", got)
		}
		return log.String()
	}
	const line = "the database has moved"
	if log := opened(); strings.Contains(log, line) {
		t.Errorf("a new database: %s", log)
	}
	b := openTest(t, Config{DSN: dsn})
	if _, err := b.control.pool.Exec(t.Context(),
		"UPDATE settings SET value = value - 1 WHERE name = 'home_table'"); err != nil {
		t.Fatal(err)
	}
	if log := opened(); !strings.Contains(log, line) || !strings.Contains(log, "same-tables=false") {
		t.Errorf("a table that was made again: %s", log)
	}
	if log := opened(); strings.Contains(log, line) {
		t.Errorf("the next start: %s", log)
	}
}
