package main

import (
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// leastPercent is Go's GOGC on a large heap: it is mostly long-lived rows and results that wait for their clients,
	// and memory costs more than the little CPU this takes.
	leastPercent = 50
	// smallestHeap is the heap that Go assumes at least.
	smallestHeap = 4 << 20
	// gcStep is how far GOGC must be off before it is set again, which stops the world for a moment.
	gcStep = 5
)

// cgroupPercent is the part of the memory of the process's cgroup that Go may use. The rest is for SQLite.
const cgroupPercent = 80

// limitHeap makes Go collect garbage early enough to stay within the limit of the process's cgroup, beyond which the
// kernel kills it. GOMEMLIMIT in the environment has precedence.
func limitHeap(log *slog.Logger) {
	group, err := memlimit.FromCgroup()
	if err != nil || group == 0 || group > math.MaxInt64/100 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := int64(group) * cgroupPercent / 100
	debug.SetMemoryLimit(limit)
	log.Info("limited Go's memory because the cgroup limits the process", "bytes", limit, "cgroup-bytes", group)
}

// heapPolicy is how much garbage accumulates before a small heap is collected.
type heapPolicy struct {
	garbage uint64 // in bytes
	most    uint64 // GOGC at most
}

var (
	// On an edge node memory is scarce. Without 20 MiB of garbage, 1,000 updates a second would cause one collection a
	// second, and the updates in those 10 ms would be the slowest percent.
	heapOnSQLite = heapPolicy{20 << 20, 100 * (20 << 20) / smallestHeap}
	// A replica produces more garbage, and runs where there is memory: it has Go's default up to 128 MiB of garbage.
	// Beyond that, a flood of large results would otherwise take twice what may wait for clients.
	heapOnPostgres = heapPolicy{128 << 20, 100}
)

// tuneHeap starts to control how often garbage is collected, unless GOGC is set in the environment.
func tuneHeap(p heapPolicy) {
	if os.Getenv("GOGC") != "" {
		return
	}
	t := &heapTuner{policy: p, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	t.tune()
}

// heapTuner adapts GOGC to the size of the heap.
type heapTuner struct {
	policy  heapPolicy
	live    []metrics.Sample
	percent int
}

// tune sets GOGC for the next collection and schedules itself to run after it.
func (t *heapTuner) tune() {
	metrics.Read(t.live)
	if p := t.policy.percent(t.live[0].Value.Uint64()); p >= t.percent+gcStep || p <= t.percent-gcStep {
		t.percent = p
		debug.SetGCPercent(p)
	}
	// Large enough not to share an allocation with other objects, which may live.
	runtime.AddCleanup(new([64]byte), func(t *heapTuner) { t.tune() }, t)
}

// percent returns the GOGC for a heap with this many live bytes.
func (p heapPolicy) percent(live uint64) int {
	return int(max(leastPercent, min(100*p.garbage/max(live, smallestHeap), p.most)))
}
