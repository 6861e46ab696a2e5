//go:build !linux

package listen

import "net"

// HungUp always returns false: it cannot detect a closed connection on this system.
func HungUp(net.Conn) bool { return false }
