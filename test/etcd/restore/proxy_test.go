package restore

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy passes connections to a server, until clients have sent a number of bytes. From then on it holds back what
// they send, until release is closed.
type proxy struct {
	listener net.Listener
	held     chan struct{} // closed when it begins to hold back
	release  chan struct{}

	mu   sync.Mutex
	left int
}

func newProxy(t *testing.T, server string, bytes int) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, held: make(chan struct{}), release: make(chan struct{}), left: bytes}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			upstream, dialed := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
			if err := errors.Join(err, dialed); err != nil {
				t.Error(err)
				return
			}
			go p.pass(client, upstream)
		}
	}()
	return p
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

// pass copies in both directions until the client closes the connection.
func (p *proxy) pass(client, server net.Conn) {
	defer server.Close()
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	buffer := make([]byte, 4096)
	for {
		n, err := client.Read(buffer)
		if p.take(n) {
			<-p.release
		}
		if n > 0 {
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// take counts what a client has sent, and reports whether to hold it back.
func (p *proxy) take(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.left
	p.left -= n
	if before >= 0 && p.left < 0 {
		close(p.held)
	}
	return p.left < 0
}
