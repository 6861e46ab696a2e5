package cluster

import "syscall"

// sysProcAttr makes the kernel end a process with the test that started it, which may be killed before its cleanup
// runs.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
