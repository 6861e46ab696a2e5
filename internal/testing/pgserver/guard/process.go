package guard

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Postmaster returns the process id of the server that runs on dir/data, 0 if none does.
func Postmaster(dir string) int {
	data := filepath.Join(dir, "data")
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return 0
	}
	// A killed server leaves the file, and another process may have its id now. A server's working directory is its
	// data directory.
	if cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd"); err == nil && cwd != data {
		return 0
	}
	return pid
}

// KillServer kills the server that runs on dir/data with all its processes, and waits until they are gone.
func KillServer(dir string) {
	pid := Postmaster(dir)
	if pid == 0 {
		return
	}
	// So that it starts no further processes while they are listed.
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	processes := append(Children(pid), pid)
	for _, p := range processes {
		_ = syscall.Kill(p, syscall.SIGKILL)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); slices.ContainsFunc(processes, running); {
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// running reports whether the process still has memory, unlike a zombie.
func running(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		_, err = os.Stat("/proc/self/stat")
		return err != nil // without /proc, trust the signal
	}
	state, _ := stateAndParent(string(stat))
	return state != "Z" && state != "X"
}

// Children returns the process ids of a process's children.
func Children(pid int) []int {
	var children []int
	add := func(child, parent string) {
		if id, err := strconv.Atoi(child); err == nil && parent == strconv.Itoa(pid) {
			children = append(children, id)
		}
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if b, err := os.ReadFile(path); err == nil {
			_, parent := stateAndParent(string(b))
			add(filepath.Base(filepath.Dir(path)), parent)
		}
	}
	if len(stats) == 0 {
		out, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 2 {
				add(f[0], f[1])
			}
		}
	}
	return children
}

// stateAndParent parses /proc/PID/stat: "PID (NAME) STATE PARENT ...", where NAME may contain anything.
func stateAndParent(stat string) (state, parent string) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 2 {
		return "", ""
	}
	return f[0], f[1]
}
