package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a process with its children, such as a Postgres server's: the children come and go, but have none themselves.
type tree int

// clockTick is the unit of times in /proc/PID/stat.
const clockTick = 10 * time.Millisecond

// pids are those of the process and its children, the process first.
func (t tree) pids() ([]int, error) {
	all := []int{int(t)}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", t))
	if err != nil || len(threads) == 0 {
		return nil, errors.Join(err, fmt.Errorf("process %d is gone", t))
	}
	for _, file := range threads {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for f := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return nil, err
			}
			all = append(all, pid)
		}
	}
	return all, nil
}

// cpu is the total user and system time so far. For ended children it has steps of 10 ms.
func (t tree) cpu() (sum time.Duration, err error) {
	all, err := t.pids()
	if err != nil {
		return 0, err
	}
	for i, pid := range all {
		one, err := cpuOf(pid)
		if err != nil && i > 0 {
			continue // ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		sum += one
	}
	f, err := statOf(fmt.Sprintf("/proc/%d/stat", t))
	if err != nil || len(f) < 15 {
		return 0, errors.Join(err, fmt.Errorf("cannot read the times of process %d", t))
	}
	for _, ticks := range f[13:15] { // cutime, cstime
		n, err := strconv.ParseInt(ticks, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * clockTick
	}
	return sum, nil
}

// signal sends a signal to all; to the first one first, because it could start others.
func (t tree) signal(sig syscall.Signal) error {
	all, err := t.pids()
	if err != nil {
		return err
	}
	if err := syscall.Kill(all[0], sig); err != nil {
		return err
	}
	if all, err = t.pids(); err != nil { // those started before it was reached
		return err
	}
	for _, pid := range all[1:] {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// pause stops all until resume; it returns once they have stopped.
func (t tree) pause() error {
	if err := t.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStop(t.stopped)
}

func (t tree) resume() error { return t.signal(syscall.SIGCONT) }

func (t tree) stopped() (bool, error) {
	all, err := t.pids()
	for _, pid := range all {
		if stopped, err := stoppedThreads(pid); !stopped || err != nil {
			return false, err
		}
	}
	return err == nil, err
}

// awaitStop waits until a process has stopped.
func awaitStop(stopped func() (bool, error)) error {
	for range 5000 {
		if ok, err := stopped(); ok || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("the process does not stop")
}

// stoppedThreads reports whether every thread of a process has stopped; one that has ended counts as stopped.
func stoppedThreads(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, file := range threads {
		f, err := statOf(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // ended meanwhile
		}
		if err != nil || len(f) == 0 {
			return false, err
		}
		if f[0] != "T" && f[0] != "Z" {
			return false, nil
		}
	}
	return true, nil
}

// statOf returns the fields of a stat file from the state on.
func statOf(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// The name before it may contain anything.
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])), nil
}

// cpuOf is the user and system time of a process so far, including ended threads.
func cpuOf(pid int) (time.Duration, error) {
	var ts unix.Timespec
	// The kernel's encoding of another process's CPU clock, as clock_getcpuclockid(3) makes it.
	clock := int32(^pid)<<3 | 2
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
