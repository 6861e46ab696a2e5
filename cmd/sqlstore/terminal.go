package main

import (
	"os"
	"os/signal"
	"syscall"
)

// terminalLost returns a function that says whether the terminal that the process was started on is gone. It must be
// called before anything asks for SIGHUP: who had that ignored, as nohup does, means to outlive the terminal.
func terminalLost() func() bool {
	if !hasTerminal() || signal.Ignored(syscall.SIGHUP) {
		return func() bool { return false }
	}
	return func() bool { return !hasTerminal() }
}

// hasTerminal says whether the process has a controlling terminal. The kernel takes it away before it sends SIGHUP.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
