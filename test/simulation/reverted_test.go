package simulation

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/simulation/world"
)

// reverted lists the fixes whose absence the simulation must notice: testdata/NAME.patch takes one back.
var reverted = []struct {
	name string
	// kind is the kind of database for which a seed has a chance to notice it.
	kind world.Kind
	// seeds is the number of seeds within which it must be noticed.
	seeds int
	// notices are pieces of messages, one of which must be among what it finds.
	notices []string
}{
	{"stale-reads", world.Synchronous, 20, []string{"reads: ", "linearizable"}},
	{"starvation", world.Alone, 20, []string{"without faults and while others write"}},
	{"falling-epoch", world.Asynchronous, 40, []string{"again", "progress", "catch up"}},
	{"lease-ended-by-a-stall", world.Alone, 40, []string{"by a stall"}},
	{"progress-after-lost-history", world.Asynchronous, 40, []string{"progress"}},
}

// TestRevertedFixes takes back one fix at a time and expects that a seed finds the defect.
func TestRevertedFixes(t *testing.T) {
	all := env.Whole.Text() != ""
	chosen := int(env.Seed.Uint(t, 0) % uint64(len(reverted)))
	for i, c := range reverted {
		if i != chosen && !all {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			patch, err := filepath.Abs(filepath.Join("testdata", c.name+".patch"))
			if err != nil {
				t.Fatal(err)
			}
			tree := copyTree(t)
			if out, err := command(tree, "git", "apply", patch); err != nil {
				t.Fatalf("the patch does not apply any more: %v\n%s", err, out)
			}
			program, dir := build(t, tree), t.TempDir()
			for n := range uint64(c.seeds) {
				r, err := run(program, dir, 3*n+uint64(c.kind), false)
				if err != nil {
					t.Fatal(err)
				}
				found := strings.Join(r.Problems, "\n")
				for _, notice := range c.notices {
					if strings.Contains(found, notice) {
						t.Logf("found by seed %d, after %d others: %s", r.Seed, n, r.Problems[0])
						return
					}
				}
				if found != "" {
					t.Errorf("seed %d finds something else: %s", r.Seed, found)
				}
			}
			t.Errorf("%d seeds do not find it", c.seeds)
		})
	}
}

// copyTree copies what the simulation is built from.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{
		"go.mod", "go.sum", "backend", "compactor", "etcdshim", "internal", "paging", "schema",
		"test/go.mod", "test/go.sum", "test/simulation", "test/support/history",
	} {
		to := filepath.Join(dir, filepath.Dir(part))
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := command(root, "cp", "-r", part, to); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

// command runs a command in a directory.
func command(dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}
