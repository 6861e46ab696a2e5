package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// countSyncs sends writes one after the other while strace counts the server's fsync and fdatasync calls, and returns
// the syncs per write. Fewer than one is an error: the server would acknowledge what is not durable. Without strace it
// returns -1.
func (t *target) countSyncs(ctx context.Context) (float64, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return -1, nil //nolint:nilerr // without strace there is no count
	}
	pids, err := t.syncing()
	if err != nil {
		return -1, err
	}
	args := []string{"-f", "-e", "trace=fsync,fdatasync"}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	cmd := exec.Command(strace, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	out, err := cmd.StderrPipe()
	if err != nil {
		return -1, err
	}
	if err := cmd.Start(); err != nil {
		return -1, err
	}
	attached, calls := make(chan struct{}), make(chan int, 1)
	go func() { calls <- readTrace(out, len(pids), attached) }()
	select {
	case <-attached:
	case n := <-calls: // not allowed to trace
		_ = cmd.Wait()
		calls <- n
		return -1, nil
	case <-time.After(10 * time.Second):
	}
	const writes = 40
	u := t.newUpdates()
	var failed error
	for range writes {
		if _, failed = u.one(ctx, 0); failed != nil {
			break
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	n := <-calls
	_ = cmd.Wait()
	if failed != nil {
		return -1, failed
	}
	if n < writes {
		return 0, t.wrong("%d syncs for %d acknowledged writes: not durable", n, writes)
	}
	return float64(n) / writes, nil
}

// readTrace counts the calls in strace's output and closes attached once that many processes are traced.
func readTrace(r io.Reader, processes int, attached chan<- struct{}) (n int) {
	for s := bufio.NewScanner(r); s.Scan(); {
		line := s.Text()
		// One line may contain both: a new thread in the middle of a call.
		if strings.Contains(line, "attached") {
			if processes--; processes == 0 {
				close(attached)
			}
		}
		if strings.Contains(line, "fsync(") || strings.Contains(line, "fdatasync(") {
			n++
		}
	}
	return n
}

// syncTime measures the disk: the median time of a write of 4 KiB and its fdatasync. It refuses a file system in
// memory, where nothing is durable.
func syncTime(dir string) (time.Duration, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return 0, fmt.Errorf("%s is in memory: choose a directory on a disk with -dir", dir)
	}
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, fmt.Errorf("probe %s: %w", dir, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	took := make([]time.Duration, 50)
	page := newValue(4096)
	for i := range took {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
		took[i] = time.Since(start)
	}
	return median(took), nil
}
