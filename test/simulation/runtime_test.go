package simulation

import (
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/test/support/overlay"
)

// changes make what happens in a bubble of synctest follow from a seed.
var changes = []overlay.Change{
	// Random numbers, also those of hash functions and of select, do not depend on the process.
	overlay.Replace("runtime/rand.go", "\tglobalRand.state.Init(*seed)",
		"\t*seed = [32]byte{1}\n\tglobalRand.state.Init(*seed)"),
	overlay.Replace("runtime/rand.go", "\tmp := getg().m\n\tc := &mp.chacha8",
		simulated64+"\tmp := getg().m\n\tc := &mp.chacha8"),
	overlay.Replace("runtime/rand.go", "\tmp := getg().m\n\t// Implement wyrand",
		simulated32+"\tmp := getg().m\n\t// Implement wyrand"),
	overlay.Replace("runtime/rand.go", "\n// bootstrapRand returns", simulation+"\n// bootstrapRand returns"),
	// Timers of the same instant fire in an order that follows from the seed, also those that are set on the system
	// stack, which is in no bubble.
	overlay.Replace("runtime/time.go", "\t\t\tt.rand = cheaprand()\n", "\t\t\tt.rand = uint32(simulated() >> 32)\n"),
	// The runtime's own locks draw no random numbers when another thread holds them, which real time decides.
	overlay.Replace("runtime/lock_spinbit.go", "antiStarve := cheaprandn(mutexTailWakePeriod) == 0\n",
		"antiStarve := false\n"),
	overlay.Replace("runtime/mprof.go", "\tif cheaprandn(gTrackingPeriod) == 0 {\n\t\treturn nanotime()\n\t}\n", ""),
	// Goroutines are not preempted.
	overlay.Replace("runtime/proc.go", "const forcePreemptNS = 10 * 1000 * 1000",
		"const forcePreemptNS = 3600 * 1000 * 1000 * 1000"),
	// The order in which goroutines run does not depend on how many ran before the bubble.
	overlay.Replace("runtime/proc.go", "if pp.schedtick%61 == 0 && !sched.runq.empty() {", "if false {"),
	// Mutexes decide by virtual time who starves.
	overlay.Replace("runtime/sema.go", "func internal_sync_nanotime() int64 {\n",
		"func internal_sync_nanotime() int64 {\n\tif b := getg().bubble; b != nil {\n\t\treturn b.now\n\t}\n"),
	// Time passes while goroutines wait for a mutex.
	overlay.Replace("runtime/runtime2.go", "\twaitReasonSyncCondWait:          true,\n",
		"\twaitReasonSyncCondWait:          true,\n\twaitReasonSyncMutexLock:         true,\n"+
			"\twaitReasonSyncRWMutexRLock:      true,\n\twaitReasonSyncRWMutexLock:       true,\n"),
}

const (
	simulated64 = "\tif getg().bubble != nil {\n\t\treturn simulated()\n\t}\n"
	simulated32 = "\tif getg().bubble != nil {\n\t\treturn uint32(simulated() >> 32)\n\t}\n"
	// simulation is splitmix64.
	simulation = `
//go:linkname simulation
var simulation uint64

//go:nosplit
func simulated() uint64 {
	simulation += 0x9e3779b97f4a7c15
	z := simulation
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
`
)

// build builds the program that runs a seed, from a tree of the repository.
func build(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "world.test")
	err := overlay.Go(t.Context(), filepath.Join(root, "test", "simulation"), changes, []string{"CGO_ENABLED=0"},
		"test", "-c", "-trimpath", "-tags", "simulation", "-o", path, "./world")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
