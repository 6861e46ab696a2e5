package upgrade

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/support/launch"
)

// stepTimeout limits each step of a test: generous, because tests share slow machines.
const stepTimeout = time.Minute

// database runs commands of the new program on a database.
type database []string // environment variables that name it

// command runs `sqlstore ARGS` and returns what it prints.
func (d database) command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, launch.Binary(t), args...)
	c.Env = append(os.Environ(), d...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// succeeds fails the test unless a command succeeds and prints the wanted text.
func (d database) succeeds(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, err := d.command(t, args...); err != nil || !strings.Contains(out, want) {
		t.Errorf("sqlstore %s: %v\n%swant %q", strings.Join(args, " "), err, out, want)
	}
}

// refuses fails the test unless a command fails and prints the wanted text.
func (d database) refuses(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, err := d.command(t, args...); err == nil || !strings.Contains(out, want) {
		t.Errorf("sqlstore %s: %v\n%swant a failure with %q", strings.Join(args, " "), err, out, want)
	}
}

// awaitChecksums waits until `sqlstore check` finds that all rows have checksums. It fails if one is wrong.
func (d database) awaitChecksums(t *testing.T) {
	t.Helper()
	deadline := time.After(stepTimeout)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := d.command(t, "check")
		if err != nil || !strings.Contains(out, " rows, 0 problems") {
			t.Fatalf("check: %v\n%s", err, out)
		}
		if !strings.Contains(out, "no checksum") {
			t.Logf("check: %s", strings.TrimSpace(out))
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("rows still lack their checksums:\n%s", out)
		}
	}
}
