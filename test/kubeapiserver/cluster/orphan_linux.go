package cluster

import "syscall"

// sysProcAttr makes the kernel end a process with the test that started it, which may be killed before its clean-up has
// run.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
