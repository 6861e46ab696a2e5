package simulation

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/simulation/world"
)

const root = "../.."

// TestSeeds runs one seed after the other, as many as time allows.
func TestSeeds(t *testing.T) {
	program, dir := build(t, root), t.TempDir()
	first, lasts := env.Seed.Uint(t, 1), env.Length.Minutes(t, 30*time.Second)
	if lasts == 0 {
		r, err := run(program, dir, first, true)
		report(t, r, err)
		log, _ := os.ReadFile(logOf(dir, first))
		t.Logf("%+v\n%s", r, log)
		return
	}
	var next atomic.Uint64
	next.Store(first)
	end := time.Now().Add(lasts)
	var total totals
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for time.Now().Before(end) {
				r, err := run(program, dir, next.Add(1)-1, false)
				report(t, r, err)
				total.add(r)
			}
		})
	}
	wg.Wait()
	t.Log(&total)
}

// report fails the test if a run found something.
func report(t *testing.T, r world.Result, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	if len(r.Problems) > 0 {
		t.Errorf("seed %d (%s):\n%s\nrun it alone with SQLSTORE_TEST_LENGTH=0 SQLSTORE_TEST_SEED=%d", r.Seed, r.Plan,
			strings.Join(r.Problems, "\n"), r.Seed)
	}
}

// totals add up runs.
type totals struct {
	mu             sync.Mutex
	runs, requests int
	steps          uint64
	time           time.Duration
	faults         map[string]int
}

func (s *totals) add(r world.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults == nil {
		s.faults = map[string]int{}
	}
	s.runs, s.requests, s.steps, s.time = s.runs+1, s.requests+r.Requests, s.steps+r.Steps, s.time+r.Time
	for f, n := range r.Faults {
		s.faults[f] += n
	}
}

// String is the report.
func (s *totals) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %.1f virtual hours, %d requests of clients, %d steps; faults:\n", s.runs, s.time.Hours(),
		s.requests, s.steps)
	for _, f := range slices.Sorted(maps.Keys(s.faults)) {
		fmt.Fprintf(&b, "%8d  %s\n", s.faults[f], f)
	}
	return b.String()
}

// replayed are seeds of each kind of database, some with clients that use gRPC.
var replayed = []uint64{1, 8, 16, 17, 18}

// TestReplay runs seeds twice and compares everything that happened.
func TestReplay(t *testing.T) {
	program := build(t, root)
	for _, seed := range replayed {
		var results []world.Result
		var logs []string
		for range 2 {
			dir := t.TempDir()
			r, err := run(program, dir, seed, true)
			if err != nil {
				t.Fatal(err)
			}
			log, err := os.ReadFile(logOf(dir, r.Seed))
			if err != nil {
				t.Fatal(err)
			}
			results, logs = append(results, r), append(logs, string(log))
		}
		a, b := results[0], results[1]
		if a.Hash != b.Hash || a.Steps != b.Steps || a.Steps == 0 || logs[0] != logs[1] {
			t.Errorf("seed %d (%s): %d steps with the hash %x, then %d with %x; the logs are equal: %t", seed, a.Plan,
				a.Steps, a.Hash, b.Steps, b.Hash, logs[0] == logs[1])
		}
	}
}
