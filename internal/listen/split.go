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

// Mode says what a [Split] serves.
type Mode struct {
	// TLS is nil without TLS.
	TLS *tls.Config
	// Plaintext also serves clients without TLS on the same port, as etcd does for an http and an https URL with one
	// address.
	Plaintext bool
	// OnlyGRPC and OnlyHTTP leave one half without connections.
	OnlyGRPC, OnlyHTTP bool
	// ByRequest divides TLS clients that offer only HTTP/2 by their first request. Without it they go to the GRPC half.
	ByRequest bool
	// MaxStreams is how many concurrent streams their server allows for a connection; 0 means any number.
	MaxStreams uint32
}

// Split divides the connections of one listener between a gRPC server and an HTTP server; see the package comment.
type Split struct {
	// GRPC and HTTP must be served at the same time.
	GRPC, HTTP net.Listener

	listener net.Listener
	mode     Mode
	ctx      context.Context
	stop     context.CancelFunc
	done     sync.WaitGroup
	conns    conns
	refused  *refusals
}

// NewSplit splits l and takes ownership of it: closing either half, or the Split, closes l. It logs clients that it
// cannot serve, with a rate limit.
func NewSplit(l net.Listener, mode Mode, log *slog.Logger) *Split {
	s := &Split{listener: l, mode: mode, refused: newRefusals(log)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	grpc, http := s.half(make(chan net.Conn)), s.half(make(chan net.Conn))
	s.GRPC, s.HTTP = grpc, http
	s.done.Go(func() { s.accept(grpc, http) })
	return s
}

func (s *Split) half(conns chan net.Conn) *half {
	return &half{split: s, ctx: s.ctx, conns: conns, close: s.close}
}

// Lend returns a listener for connections of the GRPC half. Closing it leaves the half open, so another server may take
// over.
func (s *Split) Lend() net.Listener {
	ctx, stop := context.WithCancel(s.ctx)
	lent := *s.GRPC.(*half)
	lent.ctx, lent.close = ctx, func() error {
		stop()
		return nil
	}
	return &lent
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
	passed, isGRPC, err := s.detect(conn)
	if err != nil {
		if abort() && !errors.Is(err, errSilent) {
			s.refused.add(conn.RemoteAddr(), err)
		}
		_ = conn.Close()
		return
	}
	to := http
	if isGRPC {
		to = grpc
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

// detect returns the connection for the server and whether that is the gRPC server. Errors: errSilent, errOnlyGRPC,
// errOnlyHTTP, those of the handshake.
func (s *Split) detect(conn *conn) (_ net.Conn, isGRPC bool, err error) {
	secure := s.mode.TLS != nil
	if secure && s.mode.Plaintext {
		head, err := conn.peek(1)
		if err != nil {
			return nil, false, errSilent
		}
		secure = head[0] == tlsRecord
	}
	if secure {
		return s.handshake(conn)
	}
	head, err := conn.peek(len(preface))
	if err != nil {
		return nil, false, errSilent
	}
	isGRPC = string(head) == preface
	switch {
	case s.mode.OnlyHTTP && isGRPC:
		return nil, false, errOnlyHTTP
	case s.mode.OnlyGRPC && !isGRPC:
		return nil, false, errOnlyGRPC
	case head[0] == tlsRecord:
		s.refused.add(conn.RemoteAddr(), errSpeaksTLS) // the HTTP server sends an error that the client can read
	}
	return conn, isGRPC, nil
}

// handshake completes TLS. A client that offers only HTTP/2 is most likely a gRPC client.
func (s *Split) handshake(conn net.Conn) (_ net.Conn, isGRPC bool, err error) {
	var offered []string
	config := s.mode.TLS.Clone()
	inner := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offered = hello.SupportedProtos
		return inner(hello)
	}
	secure := tls.Server(conn, config)
	if err := secure.HandshakeContext(s.ctx); err != nil {
		return nil, false, err
	}
	isHTTP2 := secure.ConnectionState().NegotiatedProtocol == "h2"
	switch {
	case s.mode.OnlyHTTP:
		return secure, false, nil
	case s.mode.OnlyGRPC:
		if !isHTTP2 {
			return nil, false, errOnlyGRPC
		}
		return secure, true, nil
	case !isHTTP2 || slices.Contains(offered, "http/1.1"):
		return secure, false, nil
	case s.mode.ByRequest:
		opened, isGRPC, err := openHTTP2(secure, s.mode.MaxStreams)
		return opened, isGRPC, err
	}
	return secure, true, nil
}

// preface begins every HTTP/2 connection, and no HTTP/1 request.
const preface = "PRI"

// tlsRecord is the first byte of a TLS handshake.
const tlsRecord = 0x16

var (
	// errSilent is returned if a client sends nothing that shows its protocol.
	errSilent = errors.New("the client sent no request")
	// errSpeaksTLS is the reason for clients that use TLS where there is none.
	errSpeaksTLS = errors.New("it speaks TLS, this listener does not: use an http URL, or listen on an https one")
	// errOnlyGRPC and errOnlyHTTP are returned for clients that speak what another listener serves.
	errOnlyGRPC = errors.New("it speaks HTTP/1, this listener serves only gRPC")
	errOnlyHTTP = errors.New("it speaks gRPC, this listener serves only HTTP")
)

// half is the listener of one of the two servers.
type half struct {
	split *Split
	ctx   context.Context // ends when it is closed
	conns chan net.Conn
	close func() error
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (h *half) Close() error { return h.close() }

func (h *half) Addr() net.Addr { return h.split.listener.Addr() }
