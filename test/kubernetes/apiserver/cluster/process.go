package cluster

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// shownLog is how many bytes of a process's log a failed test shows.
const shownLog = 32 << 10

// process is one run of a program, its output in a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has been waited for

	mu     sync.Mutex
	killed bool // by the test
}

// startProcess runs a program until the test ends. The test fails if it exits without kill, and a failed test shows the
// end of its log.
func startProcess(tb testing.TB, path string, args ...string) *process {
	tb.Helper()
	log, err := os.Create(filepath.Join(tb.TempDir(), filepath.Base(path)+".log"))
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close() // the process has its own descriptor
	p := &process{cmd: exec.Command(path, args...), log: log.Name(), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = SysProcAttr()
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its error is the exit status, which cleanup shows
		close(p.done)
	}()
	tb.Cleanup(func() { p.cleanup(tb) })
	return p
}

// kill ends the process with SIGKILL and waits for its end.
func (p *process) kill() {
	p.mu.Lock()
	select {
	case <-p.done: // it has already exited, which cleanup reports
	default:
		p.killed = true
		_ = p.cmd.Process.Kill() // fails only if it has just ended
	}
	p.mu.Unlock()
	<-p.done
}

func (p *process) cleanup(tb testing.TB) {
	p.kill()
	if !p.killed {
		tb.Errorf("%s exited unexpectedly: %v", p.cmd.Path, p.cmd.ProcessState)
	}
	if tb.Failed() {
		tb.Logf("end of %s:\n%s", filepath.Base(p.log), p.logEnd())
	}
}

// logEnd returns the end of the log, in whole lines.
func (p *process) logEnd() []byte {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	if len(content) > shownLog {
		content = content[len(content)-shownLog:]
		content = content[bytes.IndexByte(content, '\n')+1:]
	}
	return content
}

// freePort returns a loopback port that was free a moment ago.
func freePort(tb testing.TB) string {
	tb.Helper()
	address, err := launch.FreeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		tb.Fatal(err)
	}
	return port
}
