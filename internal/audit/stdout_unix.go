//go:build unix

package audit

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// standardOutput returns standard output under another descriptor: a broken pipe on descriptor 1 would end the process.
func standardOutput() (io.WriteCloser, error) {
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(fd), os.Stdout.Name()), nil
}
