// Package program builds and runs the examples in their tests.
package program

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// timeout limits each wait: generous, because tests share slow machines.
const timeout = time.Minute

// Build builds the command in the test's directory and returns its path.
func Build(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "example")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		tb.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// Program is a running command.
type Program struct {
	cmd   *exec.Cmd
	lines chan string
}

// Start runs a command in a directory until the test ends.
func Start(tb testing.TB, dir, path string, args ...string) *Program {
	tb.Helper()
	p := &Program{cmd: exec.Command(path, args...), lines: make(chan string, 100)}
	p.cmd.Dir, p.cmd.Stderr = dir, tb.Output()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails if the test has ended it
		for range p.lines {
		}
	})
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		_ = p.cmd.Wait() // Stop looks at the state
	}()
	return p
}

// Await returns what follows the prefix in the next line that the program prints. It fails the test if that line is
// another one.
func (p *Program) Await(tb testing.TB, prefix string) string {
	tb.Helper()
	select {
	case line, ok := <-p.lines:
		rest, found := strings.CutPrefix(line, prefix)
		if !ok || !found {
			tb.Fatalf("it printed %q (ended: %t), want %q", line, !ok, prefix)
		}
		return rest
	case <-time.After(timeout):
		tb.Fatalf("it did not print %q", prefix)
	}
	return ""
}

// Lines has what the program prints. It is closed when the program has ended.
func (p *Program) Lines() <-chan string { return p.lines }

// Kill ends the program as a crash would.
func (p *Program) Kill(tb testing.TB) {
	tb.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		tb.Fatal(err)
	}
}

// Stop asks the program to end, and fails the test if it does so with an error.
func (p *Program) Stop(tb testing.TB) {
	tb.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		tb.Fatal(err)
	}
	deadline := time.After(timeout)
	for {
		select {
		case _, running := <-p.lines:
			if running {
				continue
			}
			if !p.cmd.ProcessState.Success() {
				tb.Fatalf("after SIGTERM: %v", p.cmd.ProcessState)
			}
			return
		case <-deadline:
			_ = p.cmd.Process.Signal(os.Kill)
			tb.Fatal("it did not end after SIGTERM")
		}
	}
}
