package sidebyside

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// authArgs make hashes cheap, and tokens outlive the test.
var authArgs = []string{"--bcrypt-cost", "4", "--auth-token-ttl", "86400"}

// startAuth starts both servers for tests of users and roles.
func startAuth(t *testing.T, args ...string) (etcd, target *side) {
	t.Helper()
	args = append(append([]string{"--unsafe-no-fsync"}, authArgs...), args...)
	return dial(t, "etcd", servers.Etcd(t, args...).Endpoint()),
		dialRotation(t, "target", servers.Targets(t, args...))
}

// Random sequences of administrators who change users and roles, and of users who use the store meanwhile.
func TestAuthSideBySide(t *testing.T) {
	for _, seed := range seeds(t) {
		t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) { playAuth(t, seed, usualSteps) })
	}
}

// playAuth is play for sequences about users and roles.
func playAuth(t *testing.T, seed uint64, count int) {
	try := func(t *testing.T, steps []int) (*authPlayer, int, error) {
		etcd, target := startAuth(t, "--max-txn-ops", strconv.Itoa(maxOps))
		p, err := newAuthPlayer(t.Context(), etcd, target)
		if err != nil {
			t.Fatal(err)
		}
		n, err := p.play(t.Context(), seed, steps)
		return p, n, err
	}
	steps := firstSteps(count)
	p, n, err := try(t, steps)
	if err == nil {
		t.Logf("%d steps; served %v, refused %v", n, p.served, p.refused)
		return
	}
	first := err
	deadline := time.Now().Add(shrinkTime)
	shrink(steps[:n], deadline, func(rest []int) (failed bool) {
		t.Run(fmt.Sprintf("shrink/%d", len(rest)), func(t *testing.T) {
			if q, _, e := try(t, rest); e != nil {
				failed, err, p = true, e, q
			}
		})
		return failed
	})
	t.Errorf("%v\n\nafter %d of %d steps; shortened to these requests:\n  %s\nwhich end with: %v",
		first, n, count, strings.Join(p.played, "\n  "), err)
}
