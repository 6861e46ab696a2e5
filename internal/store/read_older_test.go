package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Reads at an older revision return what the database has there, without reading it.
func TestOlderReads(t *testing.T) {
	var ranges atomic.Int64
	f := &faults{Backend: openSQLite(t)}
	f.beforeRange = func(context.Context, backend.RangeQuery) error {
		ranges.Add(1)
		return nil
	}
	s := openStore(t, f, Config{})
	eventually(t, "the index is complete", s.index.Complete)
	random := rand.New(rand.NewPCG(1, 2))
	key := func() []byte { return fmt.Appendf(nil, "k%02d", random.IntN(40)) }
	for i := range 60 {
		txn := &Txn{}
		written := key()
		if random.IntN(2) == 0 { // in one transaction the key ends and begins
			txn.Success = append(txn.Success, Op{Txn: &Txn{Success: []Op{{Delete: &DeleteRequest{Key: written}}}}})
		}
		if random.IntN(3) > 0 {
			txn.Success = append(txn.Success, Op{Put: &PutRequest{Key: written, Value: fmt.Append(nil, i)}})
		} else {
			txn.Success = append(txn.Success, Op{Delete: &DeleteRequest{Key: key(), End: []byte("k2")}})
		}
		if _, err := s.Txn(within(t), txn); err != nil {
			t.Fatal(err)
		}
	}
	compacted := s.Revision() / 2
	if _, err := s.Compact(within(t), compacted, true); err != nil {
		t.Fatal(err)
	}
	for rev := compacted; rev <= s.Revision(); rev++ {
		all := backend.Span{Start: []byte("k"), End: []byte("l")}
		want, _, err := f.Backend.Range(within(t), backend.RangeQuery{Span: all, Revision: rev, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		var streamed []*Row
		req := &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: rev}
		if _, err := s.RangeStream(within(t), req, func(rows []*Row, _ bool) error {
			streamed = append(streamed, rows...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Range(within(t), req)
		if err != nil {
			t.Fatal(err)
		}
		req.CountOnly = true
		count, err := s.Range(within(t), req)
		if err != nil || count.Count != int64(len(want)) {
			t.Errorf("revision %d: counted %+v, %v, want %d", rev, count, err, len(want))
		}
		for _, rows := range [][]*Row{got.Rows, streamed} {
			if !slices.EqualFunc(rows, want, func(a *Row, b Row) bool {
				return rowText(a) == rowText(&b) && string(a.Value) == string(b.Value)
			}) {
				t.Errorf("revision %d: got %d rows, want %d", rev, len(rows), len(want))
			}
		}
	}
	before := ranges.Load()
	old := &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: s.Revision() - 1}
	if _, err := s.Range(within(t), old); err != nil || ranges.Load() != before {
		t.Errorf("%d statements, %v", ranges.Load()-before, err)
	}
	old.Revision = compacted - 1
	if _, err := s.Range(within(t), old); !errors.Is(err, ErrCompacted) {
		t.Errorf("at a compacted revision: %v", err)
	}
}

// After a start, reads at older revisions soon need the database no more. A load that fails is not repeated by every
// read.
func TestOlderReadsAfterAStart(t *testing.T) {
	b := openSQLite(t)
	before := openStore(t, b, Config{})
	eventually(t, "the index is complete", before.index.Complete)
	many(t, before, 100, 100, 1)
	old := before.Revision()
	for range 3 {
		many(t, before, 100, 100, 2)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	var fail atomic.Bool
	var statements, loads, values atomic.Int64
	f := &faults{Backend: b}
	f.beforeRows = func(context.Context, []backend.RowID) error {
		values.Add(1)
		return nil
	}
	f.beforeRange = func(context.Context, backend.RangeQuery) error {
		statements.Add(1)
		return nil
	}
	f.beforeHistory = func(context.Context, backend.HistoryQuery) error {
		if loads.Add(1); fail.Load() {
			return backend.ErrUnavailable
		}
		return nil
	}
	list := func(s *Store, revision int64) {
		t.Helper()
		res, err := s.Range(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: revision})
		if err != nil || res.Count != 100 || len(res.Rows[99].Value) != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	fail.Store(true)
	s := openStore(t, f, Config{})
	eventually(t, "the index is complete", s.index.Complete)
	eventually(t, "a load fails", func() bool { list(s, old); return loads.Load() > 0 })
	eventually(t, "the failure is noted", func() bool {
		s.older.mu.Lock()
		defer s.older.mu.Unlock()
		return !s.older.failed.IsZero()
	})
	for range 20 {
		list(s, old)
	}
	if n := loads.Load(); n != 1 {
		t.Errorf("%d loads after a failure", n)
	}
	fail.Store(false)
	s = openStore(t, f, Config{})
	eventually(t, "the index is complete", s.index.Complete)
	eventually(t, "the changes are loaded", func() bool {
		list(s, old)
		return s.index.Unknown(old, s.epoch.Load()) == 0
	})
	reads := statements.Load()
	eventually(t, "the values are in memory", func() bool {
		before := values.Load()
		list(s, old)
		return values.Load() == before
	})
	if n := statements.Load(); n != reads {
		t.Errorf("%d statements for what is in memory", n-reads)
	}
}

// Changes that do not fit into memory are not loaded again and again.
func TestChangesTooFarBack(t *testing.T) {
	for _, changes := range []int{11, 20} { // of the eleven, only the last part does not fit
		t.Run(fmt.Sprint(changes), func(t *testing.T) { testTooFarBack(t, changes) })
	}
}

func testTooFarBack(t *testing.T, changes int) {
	b := openSQLite(t)
	before := openStore(t, b, Config{})
	eventually(t, "the index is complete", before.index.Complete)
	old := put(t, before, "k", "")
	long := strings.Repeat("k", 100_000)
	for range changes {
		put(t, before, long, "")
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	var loads atomic.Int64
	f := &faults{Backend: b}
	f.beforeHistory = func(context.Context, backend.HistoryQuery) error {
		loads.Add(1)
		return nil
	}
	s := openStore(t, f, Config{CacheBytes: 1})
	eventually(t, "the index is complete", s.index.Complete)
	read := func() {
		t.Helper()
		res, err := s.Range(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: old})
		if err != nil || res.Count != 1 {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	eventually(t, "a load turns out to be too much", func() bool {
		read()
		s.older.mu.Lock()
		defer s.older.mu.Unlock()
		return s.older.tooFar == old && !s.older.loading
	})
	tried := loads.Load()
	for range 20 {
		read()
	}
	if n := loads.Load(); n != tried {
		t.Errorf("%d statements load changes again", n-tried)
	}
}
