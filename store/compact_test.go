package store

import (
	"errors"
	"testing"
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
