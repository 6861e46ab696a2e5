package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// greeting limits how long it takes from the connection until the client's protocol is known.
const greeting = 20 * time.Second

// Split divides the connections of one listener between a gRPC server and an HTTP server; see the package comment.
type Split struct {
	// GRPC and HTTP must be served at the same time.
	GRPC, HTTP net.Listener

	listener net.Listener
	tls      *tls.Config
	ctx      context.Context
	stop     context.CancelFunc
	done     sync.WaitGroup
	conns    conns
	refused  *refusals
}

// NewSplit splits l, over TLS if config is not nil, and takes ownership of it: closing either half, or the Split,
// closes l. It logs clients that fail the handshake, with a rate limit.
func NewSplit(l net.Listener, config *tls.Config, log *slog.Logger) *Split {
	s := &Split{listener: l, tls: config, refused: newRefusals(log)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	grpc, http := &half{split: s, conns: make(chan net.Conn)}, &half{split: s, conns: make(chan net.Conn)}
	s.GRPC, s.HTTP = grpc, http
	s.done.Go(func() { s.accept(grpc, http) })
	return s
}

// Close stops accepting, drops the connections that are still in the handshake and waits for that. Connections passed
// to a server stay open; see [Split.Cut].
func (s *Split) Close() error {
	err := s.close()
	s.done.Wait()
	return err
}

func (s *Split) close() error {
	s.stop()
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Split) accept(grpc, http *half) {
	for delay := time.Duration(0); ; {
		accepted, err := s.listener.Accept()
		if err == nil {
			delay = 0
			c := s.conns.add(accepted)
			s.done.Go(func() { s.greet(c, grpc, http) })
			continue
		}
		if s.ctx.Err() != nil {
			return
		}
		// Most likely out of file descriptors, which passes.
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(delay):
		case <-s.ctx.Done():
			return
		}
	}
}

// greet detects the client's protocol and passes the connection on.
func (s *Split) greet(conn *conn, grpc, http *half) {
	abort := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(greeting))
	to := http
	var passed net.Conn
	if s.tls != nil {
		secure, isGRPC, err := s.handshake(conn)
		if err != nil {
			if abort() {
				s.refused.add(conn.RemoteAddr(), err)
			}
			_ = conn.Close()
			return
		}
		passed = secure
		if isGRPC {
			to = grpc
		}
	} else {
		head, err := conn.peek(len(preface))
		if err != nil {
			abort()
			_ = conn.Close()
			return
		}
		passed = conn
		if head[0] == tlsRecord {
			s.refused.add(conn.RemoteAddr(), errSpeaksTLS) // the HTTP server sends an error that the client can read
		}
		if string(head) == preface {
			to = grpc
		}
	}
	_ = conn.SetDeadline(time.Time{})
	if !abort() {
		return // closing
	}
	select {
	case to.conns <- passed:
	case <-s.ctx.Done():
		_ = conn.Close()
	}
}

// handshake completes TLS and reports whether the client offered only HTTP/2.
func (s *Split) handshake(conn net.Conn) (*tls.Conn, bool, error) {
	var offered []string
	config := s.tls.Clone()
	inner := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offered = hello.SupportedProtos
		return inner(hello)
	}
	secure := tls.Server(conn, config)
	if err := secure.HandshakeContext(s.ctx); err != nil {
		return nil, false, err
	}
	isGRPC := secure.ConnectionState().NegotiatedProtocol == "h2" && !slices.Contains(offered, "http/1.1")
	return secure, isGRPC, nil
}

// preface begins every HTTP/2 connection, and no HTTP/1 request.
const preface = "PRI"

// tlsRecord is the first byte of a TLS handshake.
const tlsRecord = 0x16

var errSpeaksTLS = errors.New("it speaks TLS, this listener does not: use an http URL, or listen on an https one")

// half is the listener of one of the two servers.
type half struct {
	split *Split
	conns chan net.Conn
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.split.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (h *half) Close() error { return h.split.close() }

func (h *half) Addr() net.Addr { return h.split.listener.Addr() }
