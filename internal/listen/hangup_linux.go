package listen

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// HungUp reports whether the other side has closed a connection, without reading from it: nobody may ever read what it
// has sent.
func HungUp(c net.Conn) (hungUp bool) {
	sc, ok := underlying(c).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(polled, 0)
		hungUp = err == nil && n > 0 && polled[0].Revents != 0
	})
	return hungUp || err != nil
}

// underlying returns the connection below TLS and below the byte counter.
func underlying(c net.Conn) net.Conn {
	for {
		switch x := c.(type) {
		case *conn:
			c = x.Conn
		case interface{ NetConn() net.Conn }:
			c = x.NetConn()
		default:
			return c
		}
	}
}
