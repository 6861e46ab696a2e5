package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// overtaken opens a stream of n keys. When the first chunk arrives, it changes all keys, compacts the revision that the
// stream reads and calls meanwhile. It returns the stream's rows and its error.
func overtaken(t *testing.T, s *Store, n int, revision int64, meanwhile func()) ([]*Row, error) {
	t.Helper()
	var rows []*Row
	_, err := s.RangeStream(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}, Revision: revision},
		func(chunk []*Row, _ bool) error {
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
					if res, err := s.PurgeStep(within(t), 10*n); err != nil || res.Removed != 0 || res.Done {
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
					t.Errorf("after the stream: %+v, %v", res, err)
				}
			})
		}
	})
}

// A stream at or above the compacted revision does not hold off the purge.
func TestStreamsOfNewerRevisionsPinNothing(t *testing.T) {
	s := streamStore(t, 20, Config{})
	compacted := put(t, s, "k0000", "new")
	if _, err := s.Compact(within(t), compacted, false); err != nil {
		t.Fatal(err)
	}
	_, err := s.RangeStream(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}, Revision: compacted},
		func([]*Row, bool) error {
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

// A client that stops reading does not keep rows forever. Its stream fails rather than return fewer rows.
func TestStreamPinsForAWhile(t *testing.T) {
	const n = 50
	eachIndex(t, func(t *testing.T, cfg Config) {
		var later atomic.Int64
		start := time.Now()
		cfg.Now = func() time.Time { return start.Add(time.Duration(later.Load())) }
		s := streamStore(t, n, cfg)
		rows, err := overtaken(t, s, n, 0, func() {
			later.Store(int64(StreamPinLimit))
			if res, err := s.PurgeStep(within(t), 10*n); err != nil || !res.Done {
				t.Errorf("rows are kept for a stream that is too old: %+v, %v", res, err)
			}
		})
		if !errors.Is(err, ErrCompacted) {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}

// Overlapping streams whose clients do not read, each within its pin limit, keep no more rows than the oldest of them
// does.
func TestOverlappingStreamsLetPurgeGoOn(t *testing.T) {
	clock := &fakeClock{}
	s := openStore(t, openSQLite(t), Config{Now: clock.now})
	release := make(chan struct{})
	var streams sync.WaitGroup
	t.Cleanup(streams.Wait)
	t.Cleanup(func() { close(release) })
	const period, writes = StreamPinLimit / 2, 10
	var opened []int64
	for round := range 6 {
		opened = append(opened, put(t, s, "k", ""))
		entered := make(chan struct{})
		streams.Go(func() {
			req := &RangeRequest{Key: []byte("k"), End: []byte("l")}
			_, _ = s.RangeStream(within(t), req, func([]*Row, bool) error {
				close(entered)
				<-release
				return nil
			})
		})
		<-entered
		for range writes {
			put(t, s, "k", "")
		}
		if _, err := s.Compact(within(t), s.Revision(), false); err != nil {
			t.Fatal(err)
		}
		through := int64(0)
		for {
			res, err := s.PurgeStep(within(t), 1000)
			if err != nil || res.Done {
				t.Fatalf("%+v, %v", res, err)
			}
			if res == (backend.PurgeResult{}) {
				break
			}
			through = res.Through
		}
		if oldest := opened[max(0, round-1)]; through != oldest && round != 1 {
			t.Errorf("round %d: purged through revision %d, not %d", round, through, oldest)
		}
		clock.pass(period)
	}
}

// A stream with a sort target but no order is sorted like the same Range, however many chunks it takes.
func TestStreamIsSortedByItsTarget(t *testing.T) {
	const n = 40
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		for i := range n {
			if _, err := s.Put(within(t),
				&PutRequest{
					Key:   fmt.Appendf(nil, "k%d", 7*i%n),
					Value: bytes.Repeat([]byte{byte(3 * i % n)}, chunkBytes/10),
				}); err != nil {
				t.Fatal(err)
			}
		}
		for target := SortVersion; target <= SortValue; target++ {
			for _, limit := range []int64{0, 5} {
				req := RangeRequest{Key: []byte{0}, End: []byte{0}, Target: target, Limit: limit}
				want, err := s.Range(within(t), &req)
				if err != nil {
					t.Fatal(err)
				}
				var got []*Row
				chunks := 0
				res, err := s.RangeStream(within(t), &req, func(rows []*Row, _ bool) error {
					got = append(got, rows...)
					chunks++
					return nil
				})
				if err != nil || res.Rows != nil || res.Count != want.Count || res.More != want.More ||
					res.Revision != want.Revision {
					t.Errorf("target %d, limit %d: %+v, %v; want %+v", target, limit, res, err, want)
				}
				if !slices.EqualFunc(got, want.Rows,
					func(a, b *Row) bool { return a.ID() == b.ID() && bytes.Equal(a.Value, b.Value) }) {
					t.Errorf("target %d, limit %d: the rows or their order differ from Range", target, limit)
				}
				if limit == 0 && chunks < 4 {
					t.Errorf("%d MiB came in %d chunks", n*chunkBytes/10>>20, chunks)
				}
			}
		}
	})
}

// A sorted stream of the current revision reads from memory, like other streams.
func TestSortedStreamReadsMemory(t *testing.T) {
	var reads atomic.Int32
	f := &faults{Backend: openSQLite(t)}
	f.beforeRange = func(context.Context, backend.RangeQuery) error {
		reads.Add(1)
		return nil
	}
	s := openStore(t, f, Config{})
	many(t, s, 10, 1, 10)
	eventually(t, "the index is complete", s.index.Complete)
	before := reads.Load()
	rows := 0
	req := &RangeRequest{Key: []byte("k"), End: []byte("l"), Target: SortMod}
	_, err := s.RangeStream(within(t), req, func(part []*Row, _ bool) error {
		rows += len(part)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := reads.Load() - before; n != 0 || rows != 10 {
		t.Errorf("%d rows, %d statements", rows, n)
	}
}

// TestStreamWithoutCount reads a page for a caller that already knows how many rows follow it.
func TestStreamWithoutCount(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := streamStore(t, 20, cfg)
		for _, noCount := range []bool{false, true} {
			req := &RangeRequest{Key: []byte("k"), End: []byte("l"), Limit: 5, NoCount: noCount}
			res, err := s.RangeStream(within(t), req, func([]*Row, bool) error { return nil })
			if err != nil || !res.More || res.Epoch != 1 || (res.Count == 5) != noCount || !noCount && res.Count != 20 {
				t.Errorf("without count: %t: %+v, %v", noCount, res, err)
			}
		}
	})
}
