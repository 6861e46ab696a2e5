package hostile

import "syscall"

// dieWithParent ends an attacker with the test, which may be killed before its cleanup runs.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
