package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// The index serves lists of the current revision and their next pages, however many writes commit while they start.
func TestListsBesideWritesStayInTheIndex(t *testing.T) {
	var ranges atomic.Int64
	f := &faults{Backend: openSQLite(t)}
	f.beforeRange = func(context.Context, backend.RangeQuery) error {
		ranges.Add(1)
		return nil
	}
	s := openStore(t, f, Config{})
	eventually(t, "the index is complete", s.index.Complete)
	ranges.Store(0)
	fill := &Txn{}
	for i := range 2 * walkLocked {
		fill.Success = append(fill.Success, Op{Put: &PutRequest{Key: fmt.Appendf(nil, "k%04d", i)}})
	}
	if _, err := s.Txn(within(t), fill); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	var writers, readers sync.WaitGroup
	for i := range 2 {
		writers.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.Put(ctx, &PutRequest{Key: fmt.Appendf(nil, "w%d", i)})
			}
		})
	}
	for range 8 {
		readers.Go(func() {
			for range 500 {
				res, err := s.Range(ctx, &RangeRequest{Key: []byte("k"), End: []byte("l"), Limit: 300})
				if err != nil || len(res.Rows) != 300 || res.Count != 2*walkLocked {
					t.Errorf("%+v, %v", res, err)
					return
				}
			}
		})
	}
	readers.Wait()
	cancel()
	writers.Wait()
	if n := ranges.Load(); n > 0 {
		t.Errorf("the engine read %d lists from the database", n)
	}
}
