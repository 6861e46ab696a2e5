package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{
		0:                500,
		4 << 20:          500,
		20 << 20:         100,
		leastGarbage * 2: gcPercent,
		1 << 30:          gcPercent,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("GOGC for %d bytes is %d, want %d", live, got, want)
		}
	}
}

// TestHeapTuner lets the heap grow, and shrink: each collection sets what holds until the next.
func TestHeapTuner(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	tuneHeap(false)
	large := make([]byte, 3*leastGarbage)
	reach(t, func(percent uint64) bool { return percent == gcPercent })
	runtime.KeepAlive(large)
	reach(t, func(percent uint64) bool { return percent > gcPercent })
}

// reach collects garbage until GOGC is as it should be.
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
