package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one run of a server.
type process struct {
	cmd    *exec.Cmd
	log    *bytes.Buffer
	exited chan error
}

// memory is a process's memory, in bytes.
type memory struct {
	Peak int64 `json:"peak"` // VmHWM
	Anon int64 `json:"anon"` // RssAnon
	File int64 `json:"file"` // RssFile
}

// startProcess starts a program, as another user if credentials are given.
func startProcess(bin string, args []string, as *syscall.Credential) (*process, error) {
	p := &process{cmd: exec.Command(bin, args...), log: new(bytes.Buffer), exited: make(chan error, 1)}
	p.cmd.Stdout = &tail{buf: p.log}
	p.cmd.Stderr = p.cmd.Stdout
	// A stopped server would outlive a benchmark that is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: as}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.exited <- p.cmd.Wait() }()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// dead returns an error with the end of the log if the process has exited.
func (p *process) dead() error {
	select {
	case err := <-p.exited:
		p.exited <- err
		return fmt.Errorf("%s exited: %v\n%s", p.cmd.Path, err, p.log) //nolint:errorlint // err is nil after status 0
	default:
		return nil
	}
}

// stop signals the process and waits for its end.
func (p *process) stop(sig syscall.Signal) error {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(sig)
	select {
	case err := <-p.exited:
		p.exited <- err
		return nil
	case <-time.After(2 * time.Minute):
		_ = p.cmd.Process.Kill()
		<-p.exited //nolint:errcheck // it was killed
		return fmt.Errorf("%s did not stop on %v", p.cmd.Path, sig)
	}
}

// pause stops the process until resume. It returns once all of it has stopped: a thread that waits for a disk continues
// until that has answered.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStop(func() (bool, error) {
		if err := p.dead(); err != nil {
			return false, err
		}
		return stoppedThreads(p.pid())
	})
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// cpu is the user and system time of the process so far.
func (p *process) cpu() (time.Duration, error) { return cpuOf(p.pid()) }

func (p *process) memory() (m memory, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		return m, err
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmHWM:":
			m.Peak = n << 10
		case "RssAnon:":
			m.Anon = n << 10
		case "RssFile:":
			m.File = n << 10
		}
	}
	return m, nil
}

// forgetPeak resets VmHWM to what is resident now.
func (p *process) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid()), []byte("5"), 0)
}

// tail keeps the last part of a server's log for error messages.
type tail struct{ buf *bytes.Buffer }

var _ io.Writer = (*tail)(nil)

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	if t.buf.Len() > 64<<10 {
		t.buf.Next(t.buf.Len() - 8<<10)
	}
	return t.buf.Write(p)
}
