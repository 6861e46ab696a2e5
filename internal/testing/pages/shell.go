package pages

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// timeout limits each command, including a build from a new clone.
const timeout = 3 * time.Minute

// shell is a bash that keeps its directory, variables and background processes between commands.
type shell struct {
	t     *testing.T
	stdin io.Writer
	lines chan string
	ended string
}

// startShell starts a shell that ends, with everything it started, when the test does.
func startShell(t *testing.T, dir string, env []string) *shell {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail")
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatalf("the pages' commands run in bash: %v", err)
	}
	in.Close()
	s := &shell{t: t, stdin: stdin, lines: make(chan string, 1000), ended: fmt.Sprintf("--- ended %d:",
		cmd.Process.Pid)}
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		out.Close()
	})
	return s
}

// run runs commands and returns what they print. A failure fails the test.
func (s *shell) run(text string) string {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.stdin, "{ %s\n} </dev/null\necho; echo '%s'\n", strings.TrimSpace(text),
		s.ended); err != nil {
		s.t.Fatalf("%s\n%v", text, err)
	}
	var printed strings.Builder
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("%s\nfails:\n%s", text, &printed)
			}
			if line == s.ended {
				return strings.TrimSuffix(printed.String(), "\n")
			}
			printed.WriteString(line + "\n")
		case <-late.C:
			s.t.Fatalf("%s\nruns for %s:\n%s", text, timeout, &printed)
		}
	}
}
