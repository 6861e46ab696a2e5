package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/test/simulation/world"
)

// seedTimeout is how long a seed may take. One that hangs has waited for something outside its bubble.
const seedTimeout = 5 * time.Minute

// run runs a seed in a process. Errors: that of the process, with its output.
func run(program, dir string, seed uint64, log bool) (r world.Result, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), seedTimeout)
	defer cancel()
	result := filepath.Join(dir, fmt.Sprint("result-", seed))
	c := exec.CommandContext(ctx, program, "-test.run=^TestSeed$", "-test.timeout=0")
	c.Dir = dir
	// The memory limit is a safeguard: a run needs less, and so collects no garbage.
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=4GiB", "GODEBUG=asyncpreemptoff=1",
		world.SeedVariable+"="+strconv.FormatUint(seed, 10), world.ResultVariable+"="+result)
	if log {
		c.Env = append(c.Env, world.LogVariable+"="+logOf(dir, seed))
	}
	out, err := c.CombinedOutput()
	if err != nil {
		return world.Result{Seed: seed}, fmt.Errorf("seed %d: %w\n%s", seed, err, out)
	}
	b, err := os.ReadFile(result)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

func logOf(dir string, seed uint64) string { return filepath.Join(dir, fmt.Sprint("log-", seed)) }
