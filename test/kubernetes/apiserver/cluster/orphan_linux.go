package cluster

import "syscall"

// SysProcAttr makes the kernel end a process with the test that started it, which may be killed before its cleanup
// runs.
func SysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
