package store

import (
	"fmt"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// After a list of everything a write makes room by looking at a few values, not at all of them.
func TestEvictionLooksAtFew(t *testing.T) {
	const n = 100_000
	x := newIndex(backend.Clock{Revision: 1}, n, false)
	x.complete, x.gone = true, nil
	items := make([]*item, n)
	for i := range items {
		items[i] = newItem(Row{Key: fmt.Appendf(nil, "k%06d", i), Value: []byte("v"), ModRevision: 2})
	}
	x.apply(items, 2, 0)
	for _, it := range items {
		it.touch()
	}
	x.apply([]*item{newItem(Row{Key: []byte("z"), Value: []byte("v"), ModRevision: 3})}, 3, 0)
	cleared := 0
	for _, it := range items {
		if it.touched == 0 {
			cleared++
		}
	}
	if cleared == 0 || cleared > 2*evictLooks {
		t.Errorf("a write has looked at %d values", cleared)
	}
	if x.cache.bytes > x.cache.max {
		t.Errorf("%d bytes are kept, the bound is %d", x.cache.bytes, x.cache.max)
	}
}

// What waits for the sequencer counts with all that it holds.
func TestSizeOfTransactions(t *testing.T) {
	big := make([]byte, 1<<20)
	for name, txn := range map[string]*Txn{
		"compare": {Compare: []Compare{{Key: big}}}, "compare's end": {Compare: []Compare{{End: big}}},
		"range":       {Success: []Op{{Range: &RangeRequest{Key: big}}}},
		"range's end": {Failure: []Op{{Range: &RangeRequest{End: big}}}},
		"put":         {Success: []Op{{Put: &PutRequest{Value: big}}}},
		"delete":      {Success: []Op{{Delete: &DeleteRequest{Key: big}}}},
		"nested":      {Success: []Op{{Txn: &Txn{Failure: []Op{{Delete: &DeleteRequest{End: big}}}}}}},
	} {
		if n := txn.size(); n < 1<<20 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

// Each value that a read returns counts once, as found in memory or as fetched.
func TestCacheStats(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{CacheBytes: 1})
	eventually(t, "the index is complete", s.index.whole)
	put(t, s, "b", "does not fit")
	put(t, s, "a", "")
	for _, c := range []struct {
		key  string
		want CacheStats
	}{{"a", CacheStats{1, 0}}, {"b", CacheStats{1, 1}}, {"b", CacheStats{1, 2}}} {
		get(t, s, c.key, 0)
		if got := s.CacheStats(); got != c.want {
			t.Errorf("after a read of %s: %+v, want %+v", c.key, got, c.want)
		}
	}
	list := &RangeRequest{Key: []byte("a"), End: []byte("c")}
	if _, err := s.Range(within(t), list); err != nil {
		t.Fatal(err)
	}
	list.KeysOnly = true
	if _, err := s.Range(within(t), list); err != nil {
		t.Fatal(err)
	}
	if got, want := s.CacheStats(), (CacheStats{2, 3}); got != want {
		t.Errorf("after two lists, one of keys: %+v, want %+v", got, want)
	}
}
