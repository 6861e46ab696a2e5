package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// changes makes a batch of n puts and deletes of the given number of keys. Some have leases, some occur more than once.
func changes(r *rand.Rand, n, keys int, rev int64) []*Item {
	items := make([]*Item, n)
	for i := range items {
		row := backend.Row{Key: fmt.Appendf(nil, "k%06d", r.IntN(keys)), ModRevision: rev, Ordinal: int32(i)}
		if row.Deleted = r.IntN(3) == 0; !row.Deleted {
			row.Value, row.Lease = make([]byte, r.IntN(100)), int64(r.IntN(4))
		}
		items[i] = NewItem(row)
	}
	return items
}

// clone copies the items as they are before a batch is applied.
func clone(items []*Item) []*Item {
	out := make([]*Item, len(items))
	for i, it := range items {
		out[i] = NewItem(it.Row)
	}
	return out
}

// contents returns what the index holds: ids by key, leases by key, and the bytes in memory.
func contents(t *testing.T, x *Index) (ids map[string]backend.RowID, leases map[string]int64, bytes int64) {
	t.Helper()
	ids, leases = map[string]backend.RowID{}, map[string]int64{}
	cached := int64(0)
	x.tree.keys().Scan(func(key string, it *Item) bool {
		ids[key] = it.ID()
		if it.cached {
			cached += int64(len(it.Value))
			if x.cache.ring[it.slot] != it {
				t.Errorf("the cache slot of %s has another item", key)
			}
		}
		return true
	})
	if cached != x.cache.bytes || cached > x.cache.max {
		t.Errorf("%d bytes are in memory, %d are counted, the bound is %d", cached, x.cache.bytes, x.cache.max)
	}
	for id, keys := range x.leases {
		for key := range keys {
			if was, twice := leases[key]; twice {
				t.Errorf("%s has leases %d and %d", key, was, id)
			}
			leases[key] = id
		}
	}
	return ids, leases, cached
}

// A batch that is applied in parts leaves the same index as a batch that is applied at once.
func TestLargeBatchIsAppliedAsASmallOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	large, small := loaded(100_000), loaded(100_000)
	for rev := int64(2); rev < 12; rev++ {
		items := changes(r, 3*applyAtOnce, 2*applyAtOnce, rev)
		again := clone(items)
		large.Apply(items, rev, 0)
		for i := 0; i < len(again); i += applyAtOnce {
			small.Apply(again[i:i+applyAtOnce], rev, 0)
		}
		ids, leases, _ := contents(t, large)
		wantIDs, wantLeases, _ := contents(t, small)
		if !maps.Equal(ids, wantIDs) || !maps.Equal(leases, wantLeases) || large.rev != rev {
			t.Fatalf("revision %d: %d keys, %d with leases; want %d and %d", large.rev, len(ids), len(leases),
				len(wantIDs), len(wantLeases))
		}
	}
}

// Reads during a large batch see nothing or all of it.
func TestReadsBesideALargeBatch(t *testing.T) {
	const n = 20 * applyAtOnce
	x := loaded(1 << 20)
	items := make([]*Item, n)
	for i := range items {
		items[i] = NewItem(backend.Row{Key: fmt.Appendf(nil, "k%06d", i), Lease: 1, ModRevision: 2, Ordinal: int32(i)})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.Apply(items, 2, 0)
	}()
	for applied := false; !applied; {
		select {
		case <-done:
			applied = true
		case <-time.After(time.Millisecond):
		}
		tree, clock := x.Now()
		keys, at, _ := x.LeaseKeys(1)
		if want := int(clock.Revision-1) * n; tree.Len() != want || applied && clock.Revision != 2 {
			t.Fatalf("%d keys at revision %d", tree.Len(), clock.Revision)
		}
		if want := int(at-1) * n; len(keys) != want {
			t.Fatalf("%d keys of the lease at revision %d", len(keys), at)
		}
	}
}

// BenchmarkApplyMillion applies a deletion of a million keys. The metric stall is the longest time that a read waits
// for the index.
func BenchmarkApplyMillion(b *testing.B) {
	const n = 1_000_000
	x := loaded(1 << 30)
	puts, deletes := make([]*Item, n), make([]*Item, n)
	for i := range puts {
		row := backend.Row{
			Key: fmt.Appendf(nil, "/registry/pods/default/pod-%08d", i), Value: make([]byte, 100), ModRevision: 2,
			Ordinal: int32(i),
		}
		puts[i] = NewItem(row)
		deletes[i] = NewItem(backend.Row{Key: row.Key, Deleted: true, ModRevision: 3, Ordinal: int32(i)})
	}
	stall := time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		for _, it := range puts {
			it.slot = -1
		}
		x.Apply(puts, x.rev+1, 0)
		done := make(chan struct{})
		b.StartTimer()
		go func() {
			defer close(done)
			x.Apply(deletes, x.rev+1, 0)
		}()
		for waits := true; waits; {
			select {
			case <-done:
				waits = false
			default:
				began := time.Now()
				x.Complete()
				stall = max(stall, time.Since(began))
			}
		}
	}
	b.ReportMetric(float64(stall.Microseconds()), "stall-us")
}

// While a large batch moves a key to another lease and back, the key always belongs to a lease.
func TestLeaseOfAKeyMovedByALargeBatch(t *testing.T) {
	x := New(backend.Clock{Revision: 1}, 0, false)
	x.Finish(0)
	row := func(key string, lease, revision int64) *Item {
		return NewItem(backend.Row{Key: []byte(key), Lease: lease, ModRevision: revision})
	}
	x.Apply([]*Item{row("k", 1, 2)}, 2, 0)
	const n = 50 * applyAtOnce
	items := []*Item{row("k", 2, 3)}
	for i := range n {
		items = append(items, row(fmt.Sprint(i), 0, 3))
	}
	items = append(items, row("k", 1, 4))
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.Apply(items, 4, 0)
	}()
	for applied := false; !applied; {
		select {
		case <-done:
			applied = true
		default:
		}
		if keys, revision, _ := x.LeaseKeys(1); len(keys) != 1 {
			t.Fatalf("the lease has %d keys at revision %d", len(keys), revision)
		}
	}
}
