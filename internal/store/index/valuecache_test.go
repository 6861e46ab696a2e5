package index

import (
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// After a list of everything, a write evicts values after a scan of a few, not of all of them.
func TestEvictionScansFew(t *testing.T) {
	const n = 100_000
	x := loaded(n)
	items := make([]*Item, n)
	for i := range items {
		items[i] = NewItem(backend.Row{Key: fmt.Appendf(nil, "k%06d", i), Value: []byte("v"), ModRevision: 2})
	}
	x.Apply(items, 2, 0)
	for _, it := range items {
		it.Touch()
	}
	x.Apply([]*Item{NewItem(backend.Row{Key: []byte("z"), Value: []byte("v"), ModRevision: 3})}, 3, 0)
	cleared := 0
	for _, it := range items {
		if it.touched == 0 {
			cleared++
		}
	}
	if cleared == 0 || cleared > 2*evictScans {
		t.Errorf("a write looked at %d values", cleared)
	}
	if x.cache.bytes > x.cache.max {
		t.Errorf("%d bytes are kept, the bound is %d", x.cache.bytes, x.cache.max)
	}
}

// TestValuesOfOneEpoch resets an index to another history with a row of the same id. A read of the previous epoch gets
// nothing from the cache and adds nothing to it.
func TestValuesOfOneEpoch(t *testing.T) {
	row := func(value string) backend.Row {
		return backend.Row{Key: []byte("k"), ModRevision: 2, CreateRevision: 2, Version: 1, Value: []byte(value)}
	}
	cold := func() *Item { return NewBareItem(row("")) }
	for _, epoch := range []int64{1, 2} {
		x := New(backend.Clock{Revision: 1, Epoch: 1}, 1<<20, false)
		x.Reset(backend.Clock{Revision: 1, Epoch: 2})
		x.Apply([]*Item{cold()}, 2, 0)
		same := epoch == 2
		x.CacheValues([]*Item{NewItem(row("of the epoch that is asked for"))}, epoch)
		if it, _ := x.Get("k"); it.cached != same {
			t.Errorf("epoch %d: a fetched value is cached: %v", epoch, it.cached)
		}

		x = New(backend.Clock{Revision: 1, Epoch: 2}, 1<<20, false)
		x.Apply([]*Item{NewItem(row("of epoch 2"))}, 2, 0)
		items := []*Item{cold()}
		if missing := x.Warm(items, epoch); (missing == 0) != same || items[0].cached != same {
			t.Errorf("epoch %d: %d missing, %+v", epoch, missing, items[0])
		}
	}
}
