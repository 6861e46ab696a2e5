//go:build !linux

package listen

import "net"

// HungUp cannot tell here whether the other side has closed a connection.
func HungUp(net.Conn) bool { return false }
