package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/faults/patroni/chaos/build"
	"github.com/sqlstore/sqlstore/test/faults/patroni/rig"
)

const (
	defaultDuration = 2 * time.Minute
	// roundTime is how long a round injects faults. Its history is kept in memory and checked as a whole.
	roundTime = 3 * time.Minute
)

func TestChaos(t *testing.T) {
	duration := env.Length.Minutes(t, defaultDuration)
	seed := env.Seed.Uint(t, uint64(rand.Uint32()))
	chosen := choose(t)
	report := &report{seed: seed}
	t.Logf("seed %d", seed)
	cluster := rig.New(t, rig.Options{Breakable: true, Binary: build.Program(t, pages.Root(t))})
	report.began = time.Now()
	t.Cleanup(func() { publish(t, report) })
	dealer := &schedule{Rand: rand.New(rand.NewPCG(seed, 0)), kinds: chosen}
	for until := time.Now().Add(duration); time.Now().Before(until); {
		name := fmt.Sprintf("round %d", report.rounds+1)
		if !t.Run(name, func(t *testing.T) {
			c := *cluster
			c.TB = t
			s := newStage(&c, report)
			end := time.Now().Add(min(roundTime, time.Until(until)))
			for first := true; first || time.Now().Before(end); first = false {
				s.turn(dealer)
			}
			s.finish()
		}) {
			return
		}
	}
}

// choose returns the kinds of faults that the environment asks for.
func choose(t *testing.T) []kind {
	t.Helper()
	pattern, err := regexp.Compile(env.Part.Text())
	if err != nil {
		t.Fatal(err)
	}
	chosen := slices.DeleteFunc(kinds(), func(k kind) bool { return !pattern.MatchString(k.name) })
	if len(chosen) == 0 {
		t.Fatalf("no fault has a name that matches %q", pattern)
	}
	return chosen
}

// publish logs the report, and writes it to the directory that the environment names.
func publish(t *testing.T, r *report) {
	t.Helper()
	text := r.String()
	t.Logf("report:\n%s", text)
	dir := env.Keep.Text()
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("chaos-%d.txt", r.seed)), []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}
