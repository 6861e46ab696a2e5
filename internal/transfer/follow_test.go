package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// A follower that still runs when a cut-over opens the database changes nothing any more, whatever its source does. On
// Postgres, nothing else keeps it out.
func TestFollowerAfterCutover(t *testing.T) {
	const follow = 6
	dsn := pgserver.Database(t)
	open := func() backend.Backend {
		b, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	src := history(1, 20, 0)
	src.contents.Compacted = 0
	following, cutting := open(), open()
	_, err := transfer.Load(t.Context(), following, src, transfer.Options{Mark: 5, Follow: follow})
	if err != nil {
		t.Fatal(err)
	}
	resume := func(b backend.Backend) *transfer.Following {
		f, err := transfer.Resume(t.Context(), b, follow)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	follower := resume(following)
	if err := follower.SetLeases(t.Context(), src.contents.Leases); err != nil {
		t.Fatal(err)
	}
	cutover := resume(cutting)
	late := follower.Revision()
	writes := map[string]func(context.Context) error{
		"leases that are left": func(ctx context.Context) error {
			return follower.SetLeases(ctx, src.contents.Leases)
		},
		"no leases": func(ctx context.Context) error { return follower.SetLeases(ctx, nil) },
		"rows": func(ctx context.Context) error {
			late++
			return follower.Write(ctx, []backend.Row{{
				Key: fmt.Appendf(nil, "late%d", late), Value: []byte("v"), ModRevision: late, CreateRevision: late,
				Version: 1,
			}})
		},
		"users":      func(ctx context.Context) error { return follower.SetAuth(ctx, &backend.Auth{Revision: 99}) },
		"compaction": func(ctx context.Context) error { return follower.Compact(ctx, 10) },
		"lease times": func(ctx context.Context) error {
			return follower.SetRemaining(ctx, map[int64]time.Duration{1: 0})
		},
		"the end": func(ctx context.Context) error { return follower.Finish(ctx, 4711) },
	}
	refused := func(when string) {
		t.Helper()
		for name, write := range writes {
			if err := write(t.Context()); !errors.Is(err, backend.ErrTakenOver) {
				t.Errorf("%s %s: %v", name, when, err)
			}
		}
	}
	refused("during a cut-over")
	if err := cutover.Finish(t.Context(), src.contents.ClusterID); err != nil {
		t.Fatal(err)
	}
	refused("after a cut-over")
	if err := errors.Join(following.Close(), cutting.Close()); err != nil {
		t.Fatal(err)
	}
	checkLoaded(t, open(), src)
}
