package store

import (
	"context"
	"errors"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// A history of everything that is left begins again after a compaction meanwhile, but not while the database knows of
// none.
func TestHistoryBesideCompaction(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	var s *Store
	reads, compact := 0, func() error { return nil }
	f.beforeHistory = func(_ context.Context, q backend.HistoryQuery) error {
		if string(q.Span.Start) != "k" {
			return nil
		}
		reads++
		return compact()
	}
	s = openStore(t, f, Config{})
	put := func(key string) int64 {
		t.Helper()
		res, err := s.Put(t.Context(), &PutRequest{Key: []byte(key), Value: []byte("v")})
		if err != nil {
			t.Fatal(err)
		}
		return res.Revision
	}
	created := put("k")
	now := put("other")
	compact = func() error {
		if reads > 1 {
			return nil
		}
		_, err := s.Compact(t.Context(), now, true)
		return err
	}
	h, err := s.History(t.Context(), []byte("k"), -1, 10, 1<<20)
	if err != nil || len(h.Changes) != 1 || h.Changes[0].Row.ModRevision != created || reads != 2 {
		t.Errorf("%+v, %v after %d reads; want revision %d after 2", h, err, reads, created)
	}
	reads, compact = 0, func() error { return ErrCompacted }
	if _, err := s.History(t.Context(), []byte("k"), -1, 10, 1<<20); !errors.Is(err, ErrCompacted) || reads != 2 {
		t.Errorf("%v after %d reads, want that it gives up after 2", err, reads)
	}
}
