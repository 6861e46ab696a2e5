package listen

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// conns are the open connections of a [Split], whoever serves them.
type conns struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed uint64 // bytes moved by connections that are closed
	cut    bool   // accept no more
}

// conn is an accepted connection, below TLS.
type conn struct {
	net.Conn
	all *conns
	// head was read to detect the client's protocol; Read returns it first.
	head  []byte
	moved atomic.Uint64 // reads and writes that moved data
}

func (s *conns) add(accepted net.Conn) *conn {
	c := &conn{Conn: accepted, all: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		_ = accepted.Close()
		return c
	}
	if s.open == nil {
		s.open = map[*conn]struct{}{}
	}
	s.open[c] = struct{}{}
	return c
}

// Moved grows with everything that any connection reads or writes, so that a stopping server can see whether there is
// still activity.
func (s *Split) Moved() uint64 {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	n := s.conns.closed
	for c := range s.conns.open {
		n += c.moved.Load()
	}
	return n
}

// Cut closes every connection, including those passed to a server and any that is still accepted later. Neither grpc
// nor net/http soon gives up on a client that stops halfway through its handshake or a request.
func (s *Split) Cut() {
	s.conns.mu.Lock()
	s.conns.cut = true
	open := make([]*conn, 0, len(s.conns.open))
	for c := range s.conns.open {
		open = append(open, c)
	}
	s.conns.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

// HangUp closes the connections of the client at an address. Clients of a unix socket have no addresses of their own,
// so there the address must be the connection's own value.
func (s *Split) HangUp(client net.Addr) {
	s.conns.mu.Lock()
	var found []*conn
	for c := range s.conns.open {
		if a := c.RemoteAddr(); a == client || a.Network() != "unix" && a.String() == client.String() {
			found = append(found, c)
		}
	}
	s.conns.mu.Unlock()
	for _, c := range found {
		_ = c.Close()
	}
}

// peek reads n bytes and leaves them for the next reader.
func (c *conn) peek(n int) ([]byte, error) {
	head := make([]byte, n)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	c.head = head
	return head, nil
}

func (c *conn) Read(p []byte) (n int, err error) {
	if len(c.head) > 0 {
		n = copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	if n, err = c.Conn.Read(p); n > 0 {
		c.moved.Add(1)
	}
	return n, err
}

func (c *conn) Write(p []byte) (n int, err error) {
	if n, err = c.Conn.Write(p); n > 0 {
		c.moved.Add(1)
	}
	return n, err
}

func (c *conn) Close() error {
	c.all.mu.Lock()
	if _, ok := c.all.open[c]; ok {
		delete(c.all.open, c)
		c.all.closed += c.moved.Load()
	}
	c.all.mu.Unlock()
	return c.Conn.Close()
}
