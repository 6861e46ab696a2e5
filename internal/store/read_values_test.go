package store

import "testing"

// Each value that a read returns counts once, as found in memory or as fetched.
func TestCacheStats(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{CacheBytes: 1})
	eventually(t, "the index is complete", s.index.Complete)
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
