//go:build !linux

package hostile

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
