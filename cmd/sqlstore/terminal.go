package main

import (
	"os"
	"os/signal"
	"syscall"
)

// terminalLost returns a function that reports whether the terminal that started the process is gone. Call it before
// anything catches SIGHUP: a process that ignores SIGHUP, as under nohup, is meant to outlive the terminal.
func terminalLost() func() bool {
	if !hasTerminal() || signal.Ignored(syscall.SIGHUP) {
		return func() bool { return false }
	}
	return func() bool { return !hasTerminal() }
}

// hasTerminal reports whether the process has a controlling terminal. The kernel detaches it before it sends SIGHUP.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
