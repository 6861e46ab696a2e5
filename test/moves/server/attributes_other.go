//go:build !linux

package server

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
