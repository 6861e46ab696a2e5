package powercut

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var errEnded = errors.New("the process ended unasked")

// process is a program that runs again and again. Unlike package launch's servers it can be killed while it starts. Its
// methods are not for concurrent use, except kill.
type process struct {
	args       []string
	attributes syscall.SysProcAttr

	mu   sync.Mutex
	run  *exec.Cmd
	log  *strings.Builder // of the current run; read it only when that has ended
	life context.Context  // ends with the current run
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := exec.Command(p.args[0], p.args[1:]...)
	p.log = &strings.Builder{}
	run.Stdout, run.Stderr = p.log, p.log
	run.Dir, run.Env = "/", append(os.Environ(), "LC_ALL=C")
	attributes := p.attributes
	attributes.Pdeathsig = syscall.SIGKILL
	run.SysProcAttr = &attributes
	if err := run.Start(); err != nil {
		return err
	}
	life, end := context.WithCancel(context.Background())
	p.run, p.life = run, life
	go func() {
		_ = run.Wait()
		end()
	}()
	return nil
}

// kill ends the process and waits until it has closed its files.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		_ = p.run.Process.Kill() // fails only if it has ended
		<-p.life.Done()
	}
}

// terminate asks the process to shut down.
func (p *process) terminate() error { return p.run.Process.Signal(syscall.SIGTERM) }

// stop asks the process to shut down, unless it has ended, and waits for that.
func (p *process) stop() error {
	if err := p.terminate(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.life.Done():
		return nil
	case <-time.After(stepTimeout):
		return errors.New("the process does not shut down")
	}
}

// await runs f until it succeeds, the process ends, or the power is cut.
func (p *process) await(down <-chan struct{}, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(p.life, stepTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-down:
		cancel()
		err = <-done
	}
	if err != nil && p.life.Err() != nil {
		err = errors.Join(errEnded, err)
	}
	return err
}

// directory makes a directory that other users can enter.
func directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
