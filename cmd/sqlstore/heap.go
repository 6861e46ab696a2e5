package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is Go's GOGC on SQLite: the heap is mostly rows that live long, and memory is dearer to an edge node than the little CPU
	// that this costs. A replica over Postgres keeps to Go's own: it makes more garbage, and runs where there is memory.
	gcPercent = 50
	// leastGarbage is what gathers all the same before a small heap is collected: otherwise it would be collected once a second under
	// 1,000 updates a second, and what comes in those 10 ms were the slowest percent of the updates.
	leastGarbage = 20 << 20
	// gcStep is by how much GOGC has to be wrong before it is set again, which stops everything for a moment.
	gcStep = 5
)

// tuneHeap sets, from now on, how often garbage is collected, unless GOGC in the environment does.
func tuneHeap(onPostgres bool) {
	if onPostgres || os.Getenv("GOGC") != "" {
		return
	}
	t := &heapTuner{live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	t.tune()
}

// heapTuner follows the heap's size.
type heapTuner struct {
	live    []metrics.Sample
	percent int
}

// tune sets what holds until the next collection, and has itself called after that.
func (t *heapTuner) tune() {
	metrics.Read(t.live)
	if p := percentFor(t.live[0].Value.Uint64()); p >= t.percent+gcStep || p <= t.percent-gcStep {
		t.percent = p
		debug.SetGCPercent(p)
	}
	// Not so small that it shares its place with others, which may live.
	runtime.AddCleanup(new([64]byte), func(t *heapTuner) { t.tune() }, t)
}

// percentFor is the GOGC of a heap of which so many bytes live.
func percentFor(live uint64) int {
	return int(max(gcPercent, min(100*leastGarbage/max(live, 1), 100*leastGarbage/(4<<20)))) // Go takes every heap for 4 MiB at least
}
