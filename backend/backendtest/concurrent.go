package backendtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// testReadsDuringWrites reads continually while revisions are committed, compacted and purged, and the file is
// rewritten. Revision r puts key r%10 with r as its value, so what a read at any revision must return is known without
// a model.
func testReadsDuringWrites(f *fixture) {
	const keys = 10
	writes := 500 * int64(env.Length.Count(f.T, 1))
	ctx := context.Background()
	var newest atomic.Int64 // committed and answered
	newest.Store(1)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				at := newest.Load()
				at -= rand.Int64N(min(at, 50))
				if err := readDuringWrites(ctx, f.b, at, keys); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	rewrite := make(chan struct{}, 1)
	wg.Go(func() {
		for range rewrite {
			if err := f.b.Defragment(ctx); err != nil {
				f.Error(err)
			}
		}
	})
	for newest.Load() <= writes {
		tx := f.begin(backend.Needs{})
		c := tx.Loaded().Clock
		var e backend.Effects
		e.Revision = c.Revision
		for range 1 + rand.IntN(5) {
			e.Revision++
			key := e.Revision % keys
			r := backend.Row{
				Key: []byte(strconv.Itoa(int(key))), Value: []byte(strconv.Itoa(int(e.Revision))),
				ModRevision: e.Revision,
			}
			if r.PrevRevision = max(0, e.Revision-keys); r.PrevRevision < 2 {
				r.PrevRevision = 0
			}
			e.Rows = append(e.Rows, r)
		}
		if rand.IntN(20) == 0 {
			e.Compacted = max(c.Compacted, c.Revision-rand.Int64N(min(c.Revision, 40)))
		}
		if err := tx.Commit(ctx, &e); err != nil {
			f.Error(err)
			break
		}
		if newest.Swap(e.Revision)/(writes/4) != e.Revision/(writes/4) {
			rewrite <- struct{}{}
		}
		if rand.IntN(5) == 0 {
			if _, err := f.b.Purge(ctx, 1+rand.IntN(30), math.MaxInt64); err != nil {
				f.Error(err)
				break
			}
		}
	}
	close(rewrite)
	close(done)
	wg.Wait()
}

// readDuringWrites reads at revision at, which is committed, and checks the answer against the clock that comes with
// it.
func readDuringWrites(ctx context.Context, b backend.Backend, at int64, keys int) error {
	rows, clock, err := b.Range(ctx, backend.RangeQuery{Span: everything, Revision: at, Limit: 100})
	if err != nil {
		return err
	}
	if clock.Revision < at {
		return fmt.Errorf("clock %+v, though %d was committed before", clock, at)
	}
	if clock.Check(at) == nil {
		if want := min(int(at-1), keys); len(rows) != want {
			return fmt.Errorf("%d rows at %d, want %d", len(rows), at, want)
		}
		for _, r := range rows {
			key, _ := strconv.Atoi(string(r.Key))
			if want := at - (at-int64(key))%int64(keys); r.ModRevision != want ||
				string(r.Value) != strconv.Itoa(int(want)) {
				return fmt.Errorf("key %s at %d is of %d, want %d", r.Key, at, r.ModRevision, want)
			}
		}
	}
	n, clock, err := b.Count(ctx, backend.RangeQuery{Span: everything, Revision: at})
	if err != nil {
		return err
	}
	if clock.Check(at) == nil && n != min(at-1, int64(keys)) {
		return fmt.Errorf("%d keys counted at %d", n, at)
	}
	at = max(at, 2) // a fresh store is at revision 1 without a row
	h, err := b.History(ctx, backend.HistoryQuery{After: at - 1, Limit: 1000, WithPrev: true})
	if err != nil {
		return err
	}
	if h.Clock.Check(at) != nil {
		return nil //nolint:nilerr // compacted by now, or the store is still fresh
	}
	if h.Through < h.Clock.Revision || h.Through-at+1 != int64(len(h.Changes)) {
		return fmt.Errorf("%d changes from %d through %d, clock %+v", len(h.Changes), at, h.Through, h.Clock)
	}
	for i, c := range h.Changes {
		if c.Row.ModRevision != at+int64(i) {
			return fmt.Errorf("change %d from %d on is of %d", i, at, c.Row.ModRevision)
		}
		if c.Row.ModRevision > h.Clock.Compacted && c.Row.PrevRevision != 0 &&
			(c.Prev == nil || c.Prev.ModRevision != c.Row.PrevRevision) {
			return fmt.Errorf("change at %d lost its previous row, compacted %d", c.Row.ModRevision, h.Clock.Compacted)
		}
	}
	return nil
}
