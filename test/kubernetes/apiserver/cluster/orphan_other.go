//go:build !linux

package cluster

import "syscall"

// SysProcAttr has nothing for other systems.
func SysProcAttr() *syscall.SysProcAttr { return nil }
