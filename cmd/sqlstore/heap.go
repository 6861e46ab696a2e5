package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is Go's GOGC on SQLite: the heap is mostly long-lived rows, and on an edge node memory costs more than
	// the little CPU this takes. A replica over Postgres keeps Go's default: it produces more garbage and runs where
	// there is memory.
	gcPercent = 50
	// leastGarbage is the garbage that accumulates before a small heap is collected. Without it, 1,000 updates a second
	// would cause one collection a second, and the updates in those 10 ms would be the slowest percent.
	leastGarbage = 20 << 20
	// gcStep is how far GOGC must be off before it is set again, which stops the world for a moment.
	gcStep = 5
)

// tuneHeap starts to control how often garbage is collected, unless GOGC is set in the environment.
func tuneHeap(onPostgres bool) {
	if onPostgres || os.Getenv("GOGC") != "" {
		return
	}
	t := &heapTuner{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	t.tune()
}

// heapTuner adapts GOGC to the size of the heap.
type heapTuner struct {
	live    []metrics.Sample
	percent int
}

// tune sets GOGC for the next collection and schedules itself to run after it.
func (t *heapTuner) tune() {
	metrics.Read(t.live)
	if p := percentFor(t.live[0].Value.Uint64()); p >= t.percent+gcStep || p <= t.percent-gcStep {
		t.percent = p
		debug.SetGCPercent(p)
	}
	// Large enough not to share an allocation with other objects, which may live.
	runtime.AddCleanup(new([64]byte), func(t *heapTuner) { t.tune() }, t)
}

// percentFor returns the GOGC for a heap with this many live bytes.
func percentFor(live uint64) int {
	// Go assumes a heap of at least 4 MiB
	return int(max(gcPercent, min(100*leastGarbage/max(live, 1), 100*leastGarbage/(4<<20))))
}
