//go:build unix

package listen

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// control sets the options on a socket that is not bound yet.
func (o SocketOptions) control(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) {
		if o.ReusePort {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}
		if o.ReuseAddress {
			failed = errors.Join(failed, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
		}
	})
	return errors.Join(err, failed)
}
