package sidebyside

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// fixedSeed is played in every run, so that a failure points at the change that caused it.
const fixedSeed = 1

func TestSideBySide(t *testing.T) {
	steps := env.Count(t, "SQLSTORE_TEST_STEPS", 1500)
	for _, seed := range seeds(t) {
		t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) {
			play(t, seed, steps)
		})
	}
}

func seeds(t *testing.T) []uint64 {
	if s := os.Getenv("SQLSTORE_TEST_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("SQLSTORE_TEST_SEED: %v", err)
		}
		return []uint64{seed}
	}
	list := []uint64{fixedSeed}
	for range env.Count(t, "SQLSTORE_TEST_RUNS", 1) {
		list = append(list, rand.Uint64())
	}
	return list
}

// play plays a sequence; after a difference it searches for a shorter one and reports that.
func play(t *testing.T, seed uint64, count int) {
	steps := firstSteps(count)
	p := freshPlayer(t)
	n, err := p.play(t.Context(), seed, steps)
	if err == nil {
		t.Logf("%d steps, revision %d, compacted %d; served %v, refused %v", n, p.rev, p.compacted, p.served, p.refused)
		return
	}
	first := err
	deadline := time.Now().Add(env.Duration(t, "SQLSTORE_TEST_SHRINK", 45*time.Second))
	played := p.played
	shrink(steps[:n], deadline, func(rest []int) (failed bool) {
		// A subtest, so that the servers of this attempt end with it.
		t.Run(fmt.Sprintf("shrink/%d", len(rest)), func(t *testing.T) {
			p := freshPlayer(t)
			if _, e := p.play(t.Context(), seed, rest); e != nil {
				failed, err, played = true, e, p.played
			}
		})
		return failed
	})
	t.Errorf("%v\n\nafter %d of %d steps; shortened to these requests:\n  %s\nwhich end with: %v",
		first, n, count, strings.Join(played, "\n  "), err)
}

// freshPlayer starts new servers. They need not survive a crash of the machine.
func freshPlayer(t *testing.T) *player {
	args := []string{"--max-txn-ops", strconv.Itoa(maxOps), "--unsafe-no-fsync"}
	return newPlayer(dial(t, "etcd", servers.Etcd(t, args...).Endpoint()),
		dialAll(t, "target", servers.Targets(t, args...)))
}
