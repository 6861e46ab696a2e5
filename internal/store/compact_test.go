package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// A compaction at revision 0 is like any other: it succeeds only once, even across restarts.
func TestCompactAtZero(t *testing.T) {
	b := openSQLite(t)
	s := openStore(t, b, Config{})
	put(t, s, "a", "")
	compact := func(revision int64, want error) {
		t.Helper()
		if _, err := s.Compact(within(t), revision, true); !errors.Is(err, want) {
			t.Errorf("compacting at %d returned %v, want %v", revision, err, want)
		}
	}
	hash := func(want int64) {
		t.Helper()
		x, err := s.Export(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if got := x.CompactRevision(); got != want {
			t.Errorf("compacted at %d, want %d", got, want)
		}
	}
	again := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, b, Config{})
	}
	hash(-1)
	compact(-1, ErrCompacted)
	again()
	compact(0, nil)
	compact(0, ErrCompacted)
	again()
	compact(0, ErrCompacted)
	compact(-1, ErrCompacted)
	hash(0)
	if get(t, s, "a", 2) == nil || s.Compacted() != 0 {
		t.Errorf("compacted at %d", s.Compacted())
	}
	compact(1, nil)
	compact(1, ErrCompacted)
	compact(0, ErrCompacted)
	compact(3, ErrFutureRevision)
	hash(1)
}

// A physical compaction blocks writes for about purgeBlock at a time, and pauses as long if others write.
func TestPurgePace(t *testing.T) {
	type result = backend.PurgeResult
	for name, c := range map[string]struct {
		rows     int
		res      result
		revision int64
		want     int
		pause    time.Duration
	}{
		"as long as it should be":      {64, result{Examined: 64, Blocked: purgeBlock}, 5, 64, 0},
		"too long":                     {400, result{Examined: 400, Blocked: 3 * purgeBlock / 2}, 5, 266, 0},
		"much too long":                {400, result{Examined: 400, Blocked: time.Second}, 5, 200, 0},
		"short":                        {64, result{Examined: 64, Blocked: 1}, 5, 128, 0},
		"short, at the greatest":       {readChunk, result{Examined: readChunk, Blocked: 1}, 5, readChunk, 0},
		"it does not block":            {64, result{Examined: 64}, 5, 128, 0},
		"it only looked":               {64, result{Through: 1}, 5, 64, 0},
		"one row takes long":           {1, result{Examined: 1, Blocked: time.Second}, 5, 1, 0},
		"others write":                 {64, result{Examined: 64, Blocked: purgeBlock}, 6, 64, purgeBlock},
		"others write while it looked": {64, result{Through: 1}, 6, 64, 0},
	} {
		p := purgePace{rows: c.rows, revision: 5}
		pause := p.adapt(&c.res, c.revision)
		if p.rows != c.want || pause != c.pause || p.revision != c.revision {
			t.Errorf("%s: %d rows, pause of %v, revision %d", name, p.rows, pause, p.revision)
		}
	}
}

// beforePurge calls do before each purge, after the engine has decided how far the purge may go.
type beforePurge struct {
	backend.Backend
	do func()
}

func (b *beforePurge) Purge(ctx context.Context, limit int, until int64) (backend.PurgeResult, error) {
	b.do()
	return b.Backend.Purge(ctx, limit, until)
}

// A compaction does not widen a purge that has already checked which revisions are pinned: a stream that starts in
// between keeps reading.
func TestCompactionDuringAPurge(t *testing.T) {
	b := &beforePurge{Backend: openSQLite(t)}
	s := openStore(t, b, Config{})
	for range 3 {
		put(t, s, "a", "")
	}
	if _, err := s.Compact(within(t), 3, false); err != nil {
		t.Fatal(err)
	}
	var v view
	b.do = func() {
		b.do = func() {}
		var err error
		if v, err = s.pin(3); err != nil {
			t.Error(err)
		}
		if _, err := s.Compact(within(t), 4, false); err != nil {
			t.Error(err)
		}
	}
	for range 3 {
		if res, err := s.PurgeStep(within(t), 10); err != nil || res.Done || res.Through > 3 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	if rows, clock, err := b.Range(within(t),
		backend.RangeQuery{Span: backend.Span{Start: []byte("a")}, Revision: 3, Limit: 1}); err != nil ||
		len(rows) != 1 || rows[0].ModRevision != 3 || v.check(clock) != nil {
		t.Errorf("read %v at %+v: %v, %v", rows, clock, err, v.check(clock))
	}
	v.pin.end()
	if done, err := s.purgeAll(within(t), testTimeout); err != nil || !done {
		t.Errorf("purged all: %t, %v", done, err)
	}
}

// failingPurges fails a number of purge steps, and then works.
type failingPurges struct {
	backend.Backend
	left int
}

func (b *failingPurges) Purge(ctx context.Context, limit int, until int64) (backend.PurgeResult, error) {
	if b.left--; b.left >= 0 {
		return backend.PurgeResult{}, fmt.Errorf("purge: %w", backend.ErrUnavailable)
	}
	return b.Backend.Purge(ctx, limit, until)
}

// A physical compaction survives steps that fail, for example because somebody has locked their rows, but ends if all
// do.
func TestPhysicalCompactionOverFailures(t *testing.T) {
	for failures, want := range map[int]error{purgeFailures - 1: nil, purgeFailures: ErrUnavailable} {
		b := &failingPurges{Backend: openSQLite(t), left: failures}
		s := openStore(t, b, Config{})
		for range 3 {
			put(t, s, "a", "")
		}
		if _, err := s.Compact(within(t), 4, true); !errors.Is(err, want) {
			t.Errorf("%d failures: %v", failures, err)
		}
		if h, err := b.History(within(t), backend.HistoryQuery{Limit: 9}); want == nil && len(h.Changes) != 1 {
			t.Errorf("%d rows are left, %v", len(h.Changes), err)
		}
	}
}
