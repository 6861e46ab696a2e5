package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// A database whose clock was lost accepts no writes, and does not count as empty.
func TestMissingClock(t *testing.T) {
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	admin(t, dsn, "DELETE FROM clock")
	ctx, m := t.Context(), backend.Member{ID: 7}
	known := backend.Clock{Revision: 5, Epoch: 1}
	for what, ask := range map[string]func() error{
		"begin": func() error {
			tx, err := b.Begin(ctx, backend.Needs{Tail: &backend.TailQuery{Limit: 1}})
			if err == nil {
				err = tx.Commit(ctx, row("a", 2))
			}
			return err
		},
		"raise":   func() error { _, err := b.RaiseEpoch(ctx, known, 1); return err },
		"clock":   func() error { _, err := b.Clock(ctx); return err },
		"head":    func() error { _, err := b.Head(ctx); return err },
		"tail":    func() error { _, err := b.Tail(ctx, backend.TailQuery{Limit: 1}); return err },
		"confirm": func() error { _, err := b.Confirm(ctx, m); return err },
	} {
		if err := ask(); !errors.Is(err, backend.ErrNoClock) || !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	rows := 0
	if admin(t, dsn, "SELECT count(*) FROM object_versions", &rows); rows != 0 {
		t.Errorf("%d rows were written without a clock", rows)
	}
	if _, err := b.Heartbeat(ctx, m, time.Hour, time.Hour); err != nil {
		t.Error(err)
	}
}
