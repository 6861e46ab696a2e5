package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// loads counts the rows that transactions load.
type loads struct {
	backend.Backend
	rows int
}

func (l *loads) Begin(ctx context.Context, n backend.Needs) (backend.Tx, error) {
	tx, err := l.Backend.Begin(ctx, n)
	if err == nil {
		l.rows += len(tx.Loaded().Rows)
	}
	return tx, err
}

// A count inside a transaction sees the transaction's own changes. It loads no rows, so their number does not matter.
func TestCountInATransaction(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		cfg.TxnRows = 5
		l := &loads{Backend: openSQLite(t)}
		s := openStore(t, l, cfg)
		for i := range 10 {
			put(t, s, fmt.Sprintf("k%d", i), "value")
		}
		count := func(key, end string) Op {
			return Op{Range: &RangeRequest{Key: []byte(key), End: []byte(end), CountOnly: true, Limit: 3}}
		}
		txn := func(ops ...Op) (counts []int64) {
			t.Helper()
			res, err := s.Txn(within(t), &Txn{Success: ops})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res.Results {
				if r.Range != nil {
					counts = append(counts, r.Range.Count)
				}
			}
			return counts
		}
		l.rows = 0
		got := txn(count("k", "l"), count("k3", ""), count("k3", "k7"), count("k7", "k3"), count("k8", "\x00"),
			count("x", ""))
		if fmt.Sprint(got) != "[10 1 4 0 2 0]" {
			t.Errorf("counted %v", got)
		}
		if l.rows != 0 {
			t.Errorf("a count loaded %d rows", l.rows)
		}
		got = txn(
			Op{Put: &PutRequest{Key: []byte("k10")}},
			Op{Put: &PutRequest{Key: []byte("k1")}},
			Op{Delete: &DeleteRequest{Key: []byte("k7"), End: []byte("k9")}},
			count("k", "l"), count("k10", ""), count("k8", ""),
			Op{Txn: &Txn{Success: []Op{
				{Delete: &DeleteRequest{Key: []byte("k10")}},
				{Delete: &DeleteRequest{Key: []byte("none")}},
			}}},
			count("k", "l"), count("k10", ""),
		)
		if fmt.Sprint(got) != "[9 1 0 8 0]" {
			t.Errorf("counted %v", got)
		}
	})
}

// behind is a database whose counts come from a server that lacks the last revision.
type behind struct{ backend.Backend }

func (b behind) Count(ctx context.Context, q backend.RangeQuery) (int64, backend.Clock, error) {
	n, clock, err := b.Backend.Count(ctx, q)
	clock.Revision--
	return n, clock, err
}

// A count inside a transaction that names no revision never fails with a future revision.
func TestCountFromAServerBehind(t *testing.T) {
	s := openStore(t, behind{openSQLite(t)}, Config{DisableIndex: true})
	_, err := s.Txn(within(t), &Txn{Success: []Op{
		{Put: &PutRequest{Key: []byte("k")}},
		{Range: &RangeRequest{Key: []byte("a"), End: []byte("z"), CountOnly: true}},
	}})
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFutureRevision) {
		t.Errorf("got %v", err)
	}
}

// failingCount is a database whose first count fails once release is closed.
type failingCount struct {
	backend.Backend
	statements atomic.Int64
	release    chan struct{}
}

func (c *failingCount) Count(ctx context.Context, q backend.RangeQuery) (int64, backend.Clock, error) {
	if c.statements.Add(1) == 1 {
		<-c.release
		return 0, backend.Clock{}, backend.ErrUnavailable
	}
	return c.Backend.Count(ctx, q)
}

// Equal counts at an older revision share a statement, also if that of another caller fails. Their answer is remembered
// until the revision is compacted.
func TestCountsAtAnOlderRevision(t *testing.T) {
	b := &failingCount{Backend: openSQLite(t), release: make(chan struct{})}
	s := openStore(t, b, Config{DisableIndex: true})
	many(t, s, 10, 10, 1)
	old := s.Revision()
	put(t, s, "kk", "")
	count := func() (int64, error) {
		req := &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: old, CountOnly: true}
		res, err := s.Range(within(t), req)
		if err != nil {
			return 0, err
		}
		return res.Count, nil
	}
	var failed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if n, err := count(); err != nil {
				failed.Add(1)
			} else if n != 10 {
				t.Errorf("counted %d", n)
			}
		})
	}
	close(b.release)
	wg.Wait()
	if n, err := count(); n != 10 || err != nil || failed.Load() != 1 || b.statements.Load() != 2 {
		t.Errorf("%d, %v after %d statements, %d failures", n, err, b.statements.Load(), failed.Load())
	}
	if _, err := s.Compact(within(t), s.Revision(), false); err != nil {
		t.Fatal(err)
	}
	if n, err := count(); !errors.Is(err, ErrCompacted) {
		t.Errorf("at a compacted revision: %d, %v", n, err)
	}
}

// What counts remember is bounded by its number and by its bytes.
func TestRememberedCountsAreBounded(t *testing.T) {
	var c counts
	for i := range int64(2 * countsMax) {
		c.put(countKey{rev: i}, i)
	}
	if len(c.known) != countsMax || len(c.order) != countsMax {
		t.Errorf("%d counts are remembered", len(c.known))
	}
	long := strings.Repeat("k", countsBytes/4)
	for i := range int64(10) {
		c.put(countKey{rev: -i, start: long}, i)
	}
	c.put(countKey{start: strings.Repeat("k", countsBytes+1)}, 1)
	if c.bytes != countsBytes || len(c.known) != 4 || c.known[countKey{rev: -9, start: long}] != 9 {
		t.Errorf("%d counts of %d bytes are remembered", len(c.known), c.bytes)
	}
}
