package launch

import "syscall"

// sysProcAttr makes the kernel end the server with the test process, which may be killed before its cleanup runs.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
