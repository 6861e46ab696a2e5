//go:build !unix

package listen

import (
	"errors"
	"syscall"
)

// control refuses the options, which this system lacks.
func (SocketOptions) control(string, string, syscall.RawConn) error { return errors.ErrUnsupported }
