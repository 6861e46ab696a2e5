package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeapPolicy(t *testing.T) {
	for _, c := range []struct {
		live             uint64
		sqlite, postgres int
	}{
		{0, 500, 100},
		{4 << 20, 500, 100},
		{20 << 20, 100, 100},
		{40 << 20, 50, 100},
		{128 << 20, 50, 100},
		{192 << 20, 50, 66},
		{256 << 20, 50, 50},
		{1 << 30, 50, 50},
	} {
		if s, p := heapOnSQLite.percent(c.live), heapOnPostgres.percent(c.live); s != c.sqlite || p != c.postgres {
			t.Errorf("GOGC for %d bytes is %d and %d on Postgres, want %d and %d", c.live, s, p, c.sqlite, c.postgres)
		}
	}
}

// TestHeapTuner lets the heap grow and shrink. Each collection sets the GOGC that applies until the next.
func TestHeapTuner(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(leastPercent))
	tuneHeap(heapOnSQLite)
	large := make([]byte, 3*heapOnSQLite.garbage)
	reach(t, func(percent uint64) bool { return percent == leastPercent })
	runtime.KeepAlive(large)
	reach(t, func(percent uint64) bool { return percent > leastPercent })
}

// reach collects garbage until GOGC has the expected value.
func reach(t *testing.T, right func(percent uint64) bool) {
	t.Helper()
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); ; {
		runtime.GC()
		if metrics.Read(s); right(s[0].Value.Uint64()) {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("GOGC stays at %d", s[0].Value.Uint64())
		}
	}
}
