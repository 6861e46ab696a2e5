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
	"github.com/sqlstore/sqlstore/internal/store/index"
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
		return s.index.Unknown(index.Undo, old, s.epoch.Load()) == 0
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

// After a start, counts at older revisions soon need the database no more, even if the rows do not fit into memory. The
// counts of pages are such counts, too.
func TestOlderCountsAfterAStart(t *testing.T) {
	b := openSQLite(t)
	before := openStore(t, b, Config{})
	many(t, before, 100, 100, 1)
	old := before.Revision()
	for range 50 {
		many(t, before, 100, 100, 2)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	f := &faults{Backend: b}
	var rows, counts atomic.Int64
	f.beforeHistory = func(_ context.Context, q backend.HistoryQuery) error {
		if q.WithPrev {
			rows.Add(1)
		}
		return nil
	}
	f.beforeCount = func(context.Context, backend.RangeQuery) error {
		counts.Add(1)
		return nil
	}
	s := openStore(t, f, Config{CacheBytes: 1})
	eventually(t, "the index is complete", s.index.Complete)
	count := func(revision int64) (statements int64) {
		t.Helper()
		req := &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: revision, CountOnly: true}
		res, err := s.Range(within(t), req)
		if err != nil || res.Count != 100 {
			t.Fatalf("revision %d: %+v, %v", revision, res, err)
		}
		return counts.Load()
	}
	known := count(old)
	eventually(t, "the changes are loaded", func() bool { return s.index.CanCount(old, s.epoch.Load()) })
	for rev := old; rev < old+50; rev++ {
		count(rev)
	}
	res, err := s.Range(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: old, Limit: 10})
	if err != nil || len(res.Rows) != 10 || res.Count != 100 || !res.More {
		t.Errorf("a page: %+v, %v", res, err)
	}
	if n := counts.Load(); n != known || rows.Load() != 0 {
		t.Errorf("%d counts by the database, %d statements for rows", n-known, rows.Load())
	}
}

// reopened opens a store over what another has written, and waits until its index is complete.
func reopened(t *testing.T, b backend.Backend, before *Store, cfg Config) *Store {
	t.Helper()
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, b, cfg)
	eventually(t, "the index is complete", s.index.Complete)
	return s
}

// A transaction that counts at an older revision walks over no keys, if memory has the count.
func TestCountsInTransactionsAreFree(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{TxnRows: 50})
	for i := range 100 {
		put(t, s, fmt.Sprintf("k%03d", i), "")
	}
	old := s.Revision()
	put(t, s, "other", "")
	txn := &Txn{Success: []Op{
		{Range: &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: old, CountOnly: true}},
		{Put: &PutRequest{Key: []byte("other")}},
	}}
	if res, err := s.Txn(within(t), txn); err != nil || res.Results[0].Range.Count != 100 {
		t.Errorf("%+v, %v", res, err)
	}
}

// A load goes further back than the read that it is for, as far as there is space. What does not fit does not prevent
// what does.
func TestLoadsGoFurther(t *testing.T) {
	for name, c := range map[string]struct {
		revisions int64 // of 100 new keys each; about 6,700 fit
		all       bool
	}{
		"everything fits": {60, true},
		"half of it fits": {100, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := openSQLite(t)
			before := openStore(t, b, Config{})
			first := before.Revision()
			for i := range c.revisions {
				txn := &Txn{}
				for j := range 100 {
					txn.Success = append(txn.Success, Op{Put: &PutRequest{Key: fmt.Appendf(nil, "k%03d%03d", i, j)}})
				}
				if _, err := before.Txn(within(t), txn); err != nil {
					t.Fatal(err)
				}
			}
			s := reopened(t, b, before, Config{CacheBytes: 1})
			middle := first + c.revisions/2
			eventually(t, "the changes are loaded", func() bool {
				req := &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: middle, CountOnly: true}
				if res, err := s.Range(within(t), req); err != nil || res.Count != 100*(middle-first) {
					t.Fatalf("%+v, %v", res, err)
				}
				s.olderCounts.mu.Lock()
				defer s.olderCounts.mu.Unlock()
				return !s.olderCounts.loading && s.index.CanCount(middle, s.epoch.Load())
			})
			if s.index.CanCount(first, s.epoch.Load()) != c.all || s.olderCounts.tooFar >= middle {
				t.Errorf("%d revisions before are unknown, what is before %d is too far back",
					s.index.Unknown(index.Growth, first, s.epoch.Load()), s.olderCounts.tooFar)
			}
		})
	}
}

// A change for which it is unclear what it superseded is a bound for what can be loaded, and no failure.
func TestLoadsEndAtUnclearChanges(t *testing.T) {
	b := openSQLite(t)
	before := openStore(t, b, Config{})
	many(t, before, 100, 100, 1)
	first := before.Revision()
	twice := &Txn{Success: []Op{{Put: &PutRequest{Key: []byte("k")}}, {Put: &PutRequest{Key: []byte("k")}}}}
	if _, err := before.Txn(within(t), twice); err != nil {
		t.Fatal(err)
	}
	put(t, before, "k", "w")
	unclear := before.Revision()
	for range 3 {
		many(t, before, 100, 100, 2)
	}
	s := reopened(t, b, before, Config{})
	for rev, keys := range map[int64]int{first: 100, unclear: 101} {
		eventually(t, "it is known what can be loaded", func() bool {
			res, err := s.Range(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: rev})
			if err != nil || len(res.Rows) != keys {
				t.Fatalf("%+v, %v", res, err)
			}
			s.older.mu.Lock()
			defer s.older.mu.Unlock()
			if !s.older.failed.IsZero() {
				t.Fatal("the load has failed")
			}
			return !s.older.loading && (rev <= s.older.tooFar || s.index.Unknown(index.Undo, rev, s.epoch.Load()) == 0)
		})
	}
	tooFar, unknown := s.older.tooFar, s.index.Unknown(index.Undo, unclear, s.epoch.Load())
	if tooFar < first || tooFar >= unclear || unknown != 0 {
		t.Errorf("what is before %d is too far back, between %d and %d", tooFar, first, unclear)
	}
}

// A compaction that overtakes a load does not delay the next one.
func TestCompactionDuringALoad(t *testing.T) {
	b := openSQLite(t)
	before := openStore(t, b, Config{})
	many(t, before, 100, 100, 1)
	first := before.Revision()
	for range 5 {
		many(t, before, 100, 100, 2)
	}
	var s *Store
	var loads atomic.Int64
	f := &faults{Backend: b}
	f.beforeHistory = func(context.Context, backend.HistoryQuery) error {
		if loads.Add(1) > 1 {
			return nil
		}
		_, err := s.Compact(context.Background(), first+1, false)
		return err
	}
	s = reopened(t, f, before, Config{})
	read := func(revision int64) error {
		_, err := s.Range(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: revision})
		return err
	}
	eventually(t, "a load begins", func() bool { return read(first) != nil || loads.Load() > 0 })
	eventually(t, "the changes are loaded", func() bool {
		if err := read(first + 1); err != nil {
			t.Fatal(err)
		}
		return s.index.Unknown(index.Undo, first+1, s.epoch.Load()) == 0
	})
	if !s.older.failed.IsZero() {
		t.Error("the load has failed")
	}
}
