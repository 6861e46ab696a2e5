package store

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A compaction at revision 0 is one like any other, of which there is one, whatever comes between.
func TestCompactAtZero(t *testing.T) {
	b := openSQLite(t)
	s := openStore(t, b, Config{})
	put(t, s, "a", "")
	compact := func(revision int64, want error) {
		t.Helper()
		if _, err := s.Compact(within(t), revision, true); !errors.Is(err, want) {
			t.Errorf("compacting at %d: %v, want %v", revision, err, want)
		}
	}
	hash := func(want int64) {
		t.Helper()
		if h, err := s.HashKV(within(t), 0); err != nil || h.CompactRevision != want {
			t.Errorf("hashed %+v, %v; want it compacted at %d", h, err, want)
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

// Nothing is purged while a compaction is being committed, though its caller has left: the purge would remove what it has not
// asked about.
func TestPurgeWaitsForACompaction(t *testing.T) {
	hold := newBlocked()
	var armed atomic.Bool
	f := &faults{Backend: openSQLite(t)}
	f.beforeBegin = func(context.Context) error {
		if armed.Load() {
			hold.first()
		}
		return nil
	}
	s := openStore(t, f, Config{})
	put(t, s, "a", "1")
	put(t, s, "a", "2")
	armed.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := s.Compact(ctx, 3, false)
		left <- err
	}()
	<-hold.entered
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %v", err)
	}
	if res, err := s.PurgeStep(within(t), 10); err != nil || res != (backend.PurgeResult{}) {
		t.Errorf("purged %+v, %v", res, err)
	}
	close(hold.release)
	put(t, s, "b", "") // behind the compaction
	if s.Compacted() != 3 {
		t.Errorf("compacted at %d", s.Compacted())
	}
	for ctx := within(t); ; runtime.Gosched() {
		res, err := s.PurgeStep(ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		if res.Done {
			return
		}
	}
}
