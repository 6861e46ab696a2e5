package sidebyside

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

const (
	// fixedSeed is played in every run, so that a failure points at the change that caused it.
	fixedSeed  = 1
	usualSteps = 1500
	// shrinkTime is how long to shorten a failing sequence.
	shrinkTime = 45 * time.Second
)

func TestSideBySide(t *testing.T) {
	for _, seed := range seeds(t) {
		t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) {
			play(t, seed, usualSteps)
		})
	}
}

func seeds(t *testing.T) []uint64 {
	if env.Seed.Text() != "" {
		return []uint64{env.Seed.Uint(t, 0)}
	}
	list := []uint64{fixedSeed}
	for range env.Length.Count(t, 1) {
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
	deadline := time.Now().Add(shrinkTime)
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
