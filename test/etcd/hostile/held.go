package hostile

import (
	"net"
	"sync"
)

// kept are the connections that an attacker keeps open until it ends; otherwise the garbage collector would close them.
var kept struct {
	sync.Mutex
	conns []net.Conn
}

func keep(c net.Conn) {
	kept.Lock()
	defer kept.Unlock()
	kept.conns = append(kept.conns, c)
}
