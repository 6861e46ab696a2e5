package main

import (
	"math"
	"os"
	"runtime/debug"
)

const (
	// gcPercent is Go's GOGC on SQLite: the heap is mostly rows that live long, and memory is dearer to an edge node than the little CPU
	// that this costs. A replica over Postgres keeps to Go's own: it makes more garbage, and runs where there is memory.
	gcPercent = 50
	// ballastBytes is what a small heap counts as more than it is: otherwise it would be collected once a second under 1,000 updates a
	// second, and what comes in those 10 ms were the slowest percent of the updates. It costs half as much memory, in garbage that waits longer.
	ballastBytes = 40 << 20
)

// sizeHeap sets how often garbage is collected, unless GOGC or GOMEMLIMIT in the environment do. Who calls it keeps alive what it returns,
// which nobody writes to, so that the system never gives it memory.
func sizeHeap(onPostgres bool) (ballast []byte) {
	if onPostgres || os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return nil
	}
	debug.SetGCPercent(gcPercent)
	return make([]byte, ballastBytes)
}
