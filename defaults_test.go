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
	type defaults struct{ cache, results, queue int64 }
	for limit, want := range map[int64]defaults{
		64 << 20:  {32 << 20, 16 << 20, 64 << 20},
		512 << 20: {32 << 20, 64 << 20, 64 << 20},
		1 << 30:   {64 << 20, 128 << 20, 64 << 20},
		2 << 30:   {128 << 20, 256 << 20, 128 << 20},
	} {
		debug.SetMemoryLimit(limit)
		if got := (defaults{defaultCacheBytes(), resultBytes(), queueBytes()}); got != want {
			t.Errorf("with %d bytes: %+v, want %+v", limit, got, want)
		}
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if got := (defaults{defaultCacheBytes(), resultBytes(), queueBytes()}); got.cache > cacheMost ||
		got.results > 256<<20 || got.queue > queueMost {
		t.Errorf("without a limit: %+v", got)
	}
}
