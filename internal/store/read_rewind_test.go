package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Reads at an older revision return what the database has there, from a snapshot that is made of the current keys.
func TestRewoundReads(t *testing.T) {
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
	r, at := s.index.NewRewind(compacted)
	if r == nil {
		t.Fatalf("no rewind from %+v", at)
	}
	s.index.Reset(at.Clock)
	if s.index.Add(r); s.index.Since(compacted) != 0 {
		t.Error("an index that was reset is complete")
	}
	if _, tree := s.index.At(compacted); tree != nil {
		t.Error("an index that was reset has a snapshot from before")
	}
}
