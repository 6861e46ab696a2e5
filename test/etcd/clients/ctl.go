package clients

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// timeout limits every command that runs to completion and every wait for a line.
const timeout = 30 * time.Second

// result is the result of a command.
type result struct {
	stdout, stderr string
	code           int
}

// ctl runs etcdctl against an endpoint and waits until it exits.
func ctl(t *testing.T, endpoint, stdin string, args ...string) result {
	t.Helper()
	return run(t, stdin, servers.Tool(t, "etcdctl"), append([]string{"--endpoints", endpoint}, args...)...)
}

// utl runs etcdutl.
func utl(t *testing.T, args ...string) result {
	t.Helper()
	return run(t, "", servers.Tool(t, "etcdutl"), args...)
}

// must fails the test unless the command succeeded. It returns the standard output.
func (r result) must(t *testing.T) string {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

func run(t *testing.T, stdin, program string, args ...string) result {
	t.Helper()
	return runWithin(t, timeout, stdin, program, args...)
}

// runWithin is run with another limit than timeout.
func runWithin(t *testing.T, limit time.Duration, stdin, program string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%q: %v, %v; stderr: %s", args, err, ctx.Err(), &stderr)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// session is an etcdctl that runs until it is stopped.
type session struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
}

// start starts etcdctl; the end of the test kills it.
func start(t *testing.T, endpoint string, args ...string) *session {
	t.Helper()
	return startProgram(t, servers.Tool(t, "etcdctl"), append([]string{"--endpoints", endpoint}, args...)...)
}

// startProgram starts a program; the end of the test kills it.
func startProgram(t *testing.T, program string, args ...string) *session {
	t.Helper()
	cmd := exec.Command(program, args...)
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
		t.Fatal(err)
	}
	in.Close()
	s := &session{t, fmt.Sprintf("%s %q", filepath.Base(program), args), cmd, stdin, make(chan string, 1000)}
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.lines <- scan.Text()
		}
		out.Close()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return s
}

// line returns the next line of output.
func (s *session) line() string {
	s.t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			s.t.Fatalf("%s: output ended", s.name)
		}
		return line
	case <-time.After(timeout):
		s.t.Fatalf("%s: no line within %s", s.name, timeout)
		return ""
	}
}

// read returns the next n lines.
func (s *session) read(n int) []string {
	s.t.Helper()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = s.line()
	}
	return lines
}

// interrupt ends the command as Ctrl-C would.
func (s *session) interrupt() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the command as a crash would.
func (s *session) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
}

// ended waits until the command's output has ended.
func (s *session) ended() {
	s.t.Helper()
	for {
		select {
		case _, ok := <-s.lines:
			if !ok {
				return
			}
		case <-time.After(timeout):
			s.t.Fatalf("%s: still running after %s", s.name, timeout)
		}
	}
}

// write sends a line to the command's standard input.
func (s *session) write(line string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.stdin, line); err != nil {
		s.t.Fatal(err)
	}
}
