package store

import (
	"math/rand/v2"
	"sync/atomic"
)

// tally is a counter that many processors increment at once: each addition goes to one of several cache lines.
type tally struct {
	lines [8]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

func (t *tally) add(n int) {
	if n != 0 {
		t.lines[rand.Uint32()%uint32(len(t.lines))].n.Add(uint64(n))
	}
}

func (t *tally) sum() (n uint64) {
	for i := range t.lines {
		n += t.lines[i].n.Load()
	}
	return n
}

// CacheStats counts the values that reads found in the value cache (Hits), and those that they fetched from the
// database (Misses).
type CacheStats struct{ Hits, Misses uint64 }

// CacheStats returns the counts since the start of the store.
func (s *Store) CacheStats() CacheStats { return CacheStats{s.cacheHits.sum(), s.cacheMisses.sum()} }
