package simulation

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// change replaces a piece of the runtime's source, which must occur once.
type change struct{ file, old, new string }

// changes make what happens in a bubble of synctest follow from a seed.
var changes = []change{
	// Random numbers, also those of hash functions and of select, do not depend on the process.
	{"rand.go", "\tglobalRand.state.Init(*seed)", "\t*seed = [32]byte{1}\n\tglobalRand.state.Init(*seed)"},
	{"rand.go", "\tmp := getg().m\n\tc := &mp.chacha8", simulated64 + "\tmp := getg().m\n\tc := &mp.chacha8"},
	{"rand.go", "\tmp := getg().m\n\t// Implement wyrand", simulated32 + "\tmp := getg().m\n\t// Implement wyrand"},
	{"rand.go", "\n// bootstrapRand returns", simulation + "\n// bootstrapRand returns"},
	// Timers of the same instant fire in an order that follows from the seed, also those that are set on the system
	// stack, which is in no bubble.
	{"time.go", "\t\t\tt.rand = cheaprand()\n", "\t\t\tt.rand = uint32(simulated() >> 32)\n"},
	// The runtime's own locks draw no random numbers when another thread holds them, which real time decides.
	{"lock_spinbit.go", "antiStarve := cheaprandn(mutexTailWakePeriod) == 0\n", "antiStarve := false\n"},
	{"mprof.go", "\tif cheaprandn(gTrackingPeriod) == 0 {\n\t\treturn nanotime()\n\t}\n", ""},
	// Goroutines are not preempted.
	{"proc.go", "const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 3600 * 1000 * 1000 * 1000"},
	// The order in which goroutines run does not depend on how many ran before the bubble.
	{"proc.go", "if pp.schedtick%61 == 0 && !sched.runq.empty() {", "if false {"},
	// Mutexes decide by virtual time who starves.
	{
		"sema.go", "func internal_sync_nanotime() int64 {\n",
		"func internal_sync_nanotime() int64 {\n\tif b := getg().bubble; b != nil {\n\t\treturn b.now\n\t}\n",
	},
	// Time passes while goroutines wait for a mutex.
	{
		"runtime2.go", "\twaitReasonSyncCondWait:          true,\n",
		"\twaitReasonSyncCondWait:          true,\n\twaitReasonSyncMutexLock:         true,\n" +
			"\twaitReasonSyncRWMutexRLock:      true,\n\twaitReasonSyncRWMutexLock:       true,\n",
	},
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

// overlay writes the changed files and returns the file for go build -overlay.
func overlay(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, dir := filepath.Join(strings.TrimSpace(string(out)), "src", "runtime"), t.TempDir()
	files, replace := map[string]string{}, map[string]string{}
	for _, c := range changes {
		text, ok := files[c.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(source, c.file))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if n := strings.Count(text, c.old); n != 1 {
			t.Fatalf("%s of this version of Go has %d times %q: adapt the changes above", c.file, n, c.old)
		}
		files[c.file] = strings.Replace(text, c.old, c.new, 1)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		write(t, path, []byte(text))
		replace[filepath.Join(source, name)] = path
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	write(t, path, b)
	return path
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// build builds the program that runs a seed, from a tree of the repository.
func build(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "world.test")
	c := exec.Command("go", "test", "-c", "-trimpath", "-tags", "simulation", "-overlay", overlay(t), "-o", path,
		"./world")
	c.Dir = filepath.Join(root, "test", "simulation")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}
