//go:build !linux

package pgbouncer

import "syscall"

func sysProcAttr(credentials *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: credentials}
}
