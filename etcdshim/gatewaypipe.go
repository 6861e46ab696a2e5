package etcdshim

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipes is the listener of the gateway's connections to the server. Writes to them do not wait: each end of a gRPC
// connection stops reading while it has too many control frames to write, and where both do so with the buffers between
// them full, neither goes on. HTTP/2 bounds the data between them, and the requests under way bound the rest.
type pipes struct {
	dialed chan net.Conn
	done   chan struct{}
	once   sync.Once
}

// newPipes returns a listener that only its own dial reaches.
func newPipes() *pipes {
	return &pipes{dialed: make(chan net.Conn), done: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *pipes) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements [net.Listener].
func (l *pipes) Addr() net.Addr { return pipeAddress{} }

func (l *pipes) dial(ctx context.Context) (net.Conn, error) {
	a, b := newPipe(), newPipe()
	select {
	case l.dialed <- &pipeConn{in: a, out: b}:
		return &pipeConn{in: b, out: a}, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type pipeAddress struct{}

func (pipeAddress) Network() string { return gatewayNetwork }
func (pipeAddress) String() string  { return gatewayNetwork }

// pipeConn is one end of a connection.
type pipeConn struct{ in, out *pipe }

func (c *pipeConn) Read(b []byte) (int, error)       { return c.in.read(b) }
func (c *pipeConn) Write(b []byte) (int, error)      { return c.out.write(b) }
func (c *pipeConn) LocalAddr() net.Addr              { return pipeAddress{} }
func (c *pipeConn) RemoteAddr() net.Addr             { return pipeAddress{} }
func (c *pipeConn) SetDeadline(at time.Time) error   { return c.SetReadDeadline(at) }
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil } // writes do not wait
func (c *pipeConn) SetReadDeadline(at time.Time) error {
	c.in.setDeadline(at)
	return nil
}

// Close lets the other end read what has been written.
func (c *pipeConn) Close() error {
	c.out.close(false)
	c.in.close(true)
	return nil
}

// pipe is one direction of a connection.
type pipe struct {
	mu         sync.Mutex
	changed    *sync.Cond
	buf        []byte // from at on it is unread
	at         int
	closed     bool // by who writes
	readClosed bool // who reads
	expired    bool // the reads' deadline
	timer      *time.Timer
}

func newPipe() *pipe {
	p := &pipe{}
	p.changed = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readClosed:
			return 0, net.ErrClosed
		case p.expired:
			return 0, os.ErrDeadlineExceeded
		case p.at < len(p.buf):
			n := copy(b, p.buf[p.at:])
			if p.at += n; p.at == len(p.buf) {
				p.empty()
			}
			return n, nil
		case p.closed:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

// pipeBufferMax is the largest buffer that a pipe keeps when there is nothing in it.
const pipeBufferMax = 64 << 10

// empty begins the buffer anew. Callers hold mu.
func (p *pipe) empty() {
	if p.buf, p.at = p.buf[:0], 0; cap(p.buf) > pipeBufferMax {
		p.buf = nil
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.readClosed {
		return 0, io.ErrClosedPipe
	}
	if p.at > len(p.buf)/2 {
		p.buf, p.at = p.buf[:copy(p.buf, p.buf[p.at:])], 0
	}
	p.buf = append(p.buf, b...)
	p.changed.Broadcast()
	return len(b), nil
}

func (p *pipe) close(reader bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reader {
		p.readClosed, p.buf, p.at = true, nil, 0
	} else {
		p.closed = true
	}
	p.changed.Broadcast()
}

func (p *pipe) setDeadline(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.expired = false
	if at.IsZero() {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(time.Until(at), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.timer == t { // not another one meanwhile
			p.expired = true
			p.changed.Broadcast()
		}
	})
	p.timer = t
}
