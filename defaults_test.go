package sqlstore

import (
	"math"
	"runtime/debug"
	"testing"
)

// The defaults that depend on memory follow Go's limit, within their own limits.
func TestMemoryDefaults(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, c := range []struct{ limit, cache, results int64 }{
		{64 << 20, 32 << 20, 16 << 20},
		{512 << 20, 32 << 20, 64 << 20},
		{1 << 30, 64 << 20, 128 << 20},
	} {
		debug.SetMemoryLimit(c.limit)
		if cache, results := defaultCacheBytes(), resultBytes(); cache != c.cache || results != c.results {
			t.Errorf("with %d bytes: %d for values and %d for results, want %d and %d", c.limit, cache, results,
				c.cache, c.results)
		}
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if defaultCacheBytes() > cacheMost || resultBytes() > 256<<20 {
		t.Errorf("without a limit: %d for values and %d for results", defaultCacheBytes(), resultBytes())
	}
}
