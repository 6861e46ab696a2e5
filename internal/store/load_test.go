package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// A database that times out when it is asked for many keys is asked for fewer.
func TestIndexIsLoadedInSmallerParts(t *testing.T) {
	b := openSQLite(t)
	s := openStore(t, b, Config{})
	many(t, s, 50, 10, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := &faults{Backend: b}
	f.beforeRange = func(_ context.Context, q backend.RangeQuery) error {
		if q.Limit > 15 {
			return fmt.Errorf("a timeout: %w", backend.ErrUnavailable)
		}
		return nil
	}
	s = openStore(t, f, Config{loadRows: 20})
	eventually(t, "complete", s.index.Complete)
	if n := s.index.Position().Keys; n != 50 {
		t.Errorf("%d keys are loaded", n)
	}
}

// However often the index cannot be loaded, the log says so once, and once that it goes on.
func TestIndexThatCannotBeLoadedIsLoggedOnce(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	tries := 0
	f.beforeRange = func(context.Context, backend.RangeQuery) error {
		if tries++; tries <= 3 {
			return fmt.Errorf("not now: %w", backend.ErrUnavailable)
		}
		return nil
	}
	var log bytes.Buffer
	s := openStore(t, f, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	eventually(t, "complete", s.index.Complete)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"index of keys not loaded yet", "is being loaded again"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q is logged %d times:\n%s", line, n, &log)
		}
	}
}

// questions is a shared database that fails to say how far the store is, once it has been asked for keys.
type questions struct {
	backend.Shared
	beforeKeys func()
	failing    atomic.Int64 // so many more times
}

func (b *questions) Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	if q.KeysOnly {
		b.beforeKeys()
	}
	return b.Shared.Range(ctx, q)
}

func (b *questions) fail() error {
	if b.failing.Add(-1) >= 0 {
		return fmt.Errorf("the connection broke: %w", backend.ErrUnavailable)
	}
	return nil
}

func (b *questions) Head(ctx context.Context) (backend.Head, error) {
	if err := b.fail(); err != nil {
		return backend.Head{}, err
	}
	return b.Shared.Head(ctx)
}

func (b *questions) Tail(ctx context.Context, q backend.TailQuery) (backend.Tail, error) {
	if err := b.fail(); err != nil {
		return backend.Tail{}, err
	}
	return b.Shared.Tail(ctx, q)
}

func (b *questions) Confirm(ctx context.Context, m backend.Member) (backend.Head, error) {
	if err := b.fail(); err != nil {
		return backend.Head{}, err
	}
	return b.Shared.Confirm(ctx, m)
}

// TestIndexIsLoadedAfterCompactionAndFailure lets another replica compact while the index is loaded, just before the
// database fails for a moment.
func TestIndexIsLoadedAfterCompactionAndFailure(t *testing.T) {
	c := simdb.New(1, nil)
	b, other := &questions{Shared: c.Open()}, c.Open()
	t.Cleanup(func() { _, _ = b.Close(), other.Close() })
	o := openStore(t, other, Config{})
	many(t, o, 50, 10, 1)
	const failures = 50
	compacted := false
	b.beforeKeys = func() {
		if compacted {
			return
		}
		compacted = true
		put(t, o, "x", "1")
		if _, err := o.Compact(t.Context(), o.Revision(), false); err != nil {
			t.Error(err)
		}
		b.failing.Store(failures)
	}
	s := openStore(t, b, Config{})
	eventually(t, "complete", s.index.Complete)
	if n := s.index.Position().Keys; n != 51 || b.failing.Load() == failures {
		t.Errorf("%d keys are loaded, and %d failures are left", n, b.failing.Load())
	}
}
