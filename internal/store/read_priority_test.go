package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// Gets of values that are not in memory do not wait for long reads of other clients, and neither do the loads that make
// such reads short. What clients read at length waits for its turn.
func TestReadPriorities(t *testing.T) {
	b := openSQLite(t)
	before := openStore(t, b, Config{})
	many(t, before, 100, 100, 1)
	old := before.Revision()
	many(t, before, 100, 100, 2)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	var indexed, loaded, listed, gets atomic.Int64
	var complete atomic.Bool
	f := &faults{Backend: b}
	f.beforeRange = func(ctx context.Context, q backend.RangeQuery) error {
		if !complete.Load() {
			indexed.Add(1)
			if !backend.IsMaintenance(ctx) {
				return fmt.Errorf("the index is loaded as a client's read: %+v", q)
			}
			return nil
		}
		listed.Add(1)
		if backend.IsBrief(ctx) || backend.IsMaintenance(ctx) {
			return fmt.Errorf("a list does not wait for others: %+v", q)
		}
		return nil
	}
	f.beforeHistory = func(ctx context.Context, q backend.HistoryQuery) error {
		loaded.Add(1)
		if !backend.IsMaintenance(ctx) {
			return fmt.Errorf("changes are loaded as a client's read: %+v", q)
		}
		return nil
	}
	running, proceed := make(chan struct{}), make(chan struct{})
	f.beforeRows = func(ctx context.Context, ids []backend.RowID) error {
		switch {
		case backend.IsBrief(ctx) && len(ids) == 2:
			gets.Add(1)
		case len(ids) == 1: // the backend knows that this is brief
			running <- struct{}{}
			<-proceed
		case backend.IsBrief(ctx):
			return fmt.Errorf("a read of %d rows does not wait for others", len(ids))
		}
		return nil
	}
	s := openStore(t, f, Config{})
	eventually(t, "the index is complete", func() bool {
		complete.Store(s.index.Complete())
		return complete.Load()
	})
	var wg sync.WaitGroup
	get := func(key string) {
		wg.Go(func() {
			if _, err := s.Range(within(t), &RangeRequest{Key: []byte(key)}); err != nil {
				t.Error(err)
			}
		})
	}
	get("k000001")
	<-running
	get("k000002")
	get("k000003")
	eventually(t, "two gets share a statement", func() bool {
		s.fetcher.single.mu.Lock()
		defer s.fetcher.single.mu.Unlock()
		return len(s.fetcher.single.queue) == 1 && len(s.fetcher.single.queue[0].keys) == 2
	})
	close(proceed)
	wg.Wait()
	eventually(t, "the changes are loaded", func() bool {
		res, err := s.Range(within(t), &RangeRequest{Key: []byte("k"), End: []byte("l"), Revision: old})
		if err != nil || len(res.Rows) != 100 {
			t.Fatalf("%+v, %v", res, err)
		}
		return loaded.Load() > 0
	})
	if indexed.Load() == 0 || listed.Load() == 0 || gets.Load() == 0 {
		t.Errorf("%d reads of the index, %d lists, %d gets", indexed.Load(), listed.Load(), gets.Load())
	}
}
