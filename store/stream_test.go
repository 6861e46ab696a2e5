package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// overtaken opens a stream of n keys and, when its first chunk has come, changes all of them and compacts what the stream
// reads. meanwhile runs then. It returns the stream's rows and its error.
func overtaken(t *testing.T, s *Store, n int, revision int64, meanwhile func()) ([]*Row, error) {
	t.Helper()
	var rows []*Row
	_, err := s.RangeStream(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}, Revision: revision}, func(chunk []*Row) error {
		if rows == nil {
			for i := range n {
				put(t, s, fmt.Sprintf("k%04d", i), "new")
			}
			if _, err := s.Compact(within(t), s.Revision(), false); err != nil {
				return err
			}
			meanwhile()
		}
		rows = append(rows, chunk...)
		return nil
	})
	return rows, err
}

func streamStore(t *testing.T, n int, cfg Config) *Store {
	t.Helper()
	cfg.CacheBytes = 1 // values come from the database
	s := openStore(t, openSQLite(t), cfg)
	for i := range n {
		put(t, s, fmt.Sprintf("k%04d", i), "old")
	}
	return s
}

func TestStreamOutlivesACompaction(t *testing.T) {
	const n = 50
	eachIndex(t, func(t *testing.T, cfg Config) {
		for name, revision := range map[string]int64{"current": 0, "pinned": n + 1} {
			t.Run(name, func(t *testing.T) {
				s := streamStore(t, n, cfg)
				rows, err := overtaken(t, s, n, revision, func() {
					if res, err := s.PurgeStep(within(t), 10*n); err != nil || res != (backend.PurgeResult{}) {
						t.Errorf("rows are deleted while a stream reads them: %+v, %v", res, err)
					}
				})
				if err != nil || len(rows) != n {
					t.Fatalf("%d rows, %v", len(rows), err)
				}
				for i, r := range rows {
					if string(r.Key) != fmt.Sprintf("k%04d", i) || string(r.Value) != "old" {
						t.Fatalf("row %d is %s", i, rowText(r))
					}
				}
				if res, err := s.PurgeStep(within(t), 10*n); err != nil || !res.Done || res.Removed != n {
					t.Errorf("after it %+v, %v", res, err)
				}
			})
		}
	})
}

// A stream that is read at the compacted revision or above it does not keep anything from being deleted.
func TestStreamsOfNewerRevisionsHoldNothing(t *testing.T) {
	s := streamStore(t, 20, Config{})
	compacted := put(t, s, "k0000", "new")
	if _, err := s.Compact(within(t), compacted, false); err != nil {
		t.Fatal(err)
	}
	_, err := s.RangeStream(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}, Revision: compacted}, func([]*Row) error {
		res, err := s.PurgeStep(within(t), 1000)
		if err == nil && !res.Done {
			err = fmt.Errorf("purged %+v", res)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A client that has stopped reading does not keep rows for ever, and is not given fewer than there were.
func TestStreamHoldsForAWhile(t *testing.T) {
	const n = 50
	eachIndex(t, func(t *testing.T, cfg Config) {
		var later atomic.Int64
		start := time.Now()
		cfg.Now = func() time.Time { return start.Add(time.Duration(later.Load())) }
		s := streamStore(t, n, cfg)
		rows, err := overtaken(t, s, n, 0, func() {
			later.Store(int64(StreamHold))
			if res, err := s.PurgeStep(within(t), 10*n); err != nil || !res.Done {
				t.Errorf("rows are kept for a stream that is too old: %+v, %v", res, err)
			}
		})
		if !errors.Is(err, ErrCompacted) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}
