// Package server runs the servers that the tests move from and to: kine, and MariaDB below it. For tests only.
package server

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stopTimeout is how long a server may take to stop.
const stopTimeout = 30 * time.Second

// process is a running program. Its output is shown if the test fails.
type process struct {
	cmd   *exec.Cmd
	out   output
	ended chan struct{}
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// run starts a program, which ends with the test.
func run(tb testing.TB, env []string, program string, args ...string) *process {
	tb.Helper()
	p := &process{cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = attributes()
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", program, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	tb.Cleanup(func() {
		p.stop(tb)
		if tb.Failed() {
			tb.Logf("%s:\n%s", program, p.out.String())
		}
	})
	return p
}

// Pid is the id of the process.
func (p *process) Pid() int { return p.cmd.Process.Pid }

// stop ends the program, gracefully if it can.
func (p *process) stop(tb testing.TB) {
	tb.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		tb.Logf("%s does not stop", p.cmd.Path)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// await calls try until it returns no error. The test fails if the program ends, or if it takes too long.
func (p *process) await(tb testing.TB, limit time.Duration, try func() error) {
	tb.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-p.ended:
			tb.Fatalf("%s has ended: %v\n%s", p.cmd.Path, err, p.out.String())
		case <-deadline:
			tb.Fatalf("%s is not ready: %v", p.cmd.Path, err)
		case <-tick.C:
		}
	}
}
