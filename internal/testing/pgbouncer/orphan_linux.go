package pgbouncer

import "syscall"

// sysProcAttr makes the kernel end the process with the test, which may be killed before its cleanup runs.
func sysProcAttr(credentials *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credentials, Pdeathsig: syscall.SIGKILL}
}
