package server

import "syscall"

// attributes makes the kernel end a server with the test process, which may be killed before its cleanup runs.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
