package etcdshim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// web serves calls that arrive as requests of an HTTP server. They have a separate gRPC server, because a graceful stop
// cuts calls of this kind: they end with their HTTP server's Shutdown.
type web struct {
	server *grpc.Server
	// window is how many bytes of a call's messages may wait.
	window int64
}

// readChunk is more than grpc reads from a body at a time.
const readChunk = 16 << 10

func newWeb(maxMessage int, options []grpc.ServerOption) *web {
	return &web{
		server: grpc.NewServer(append(options, grpc.StatsHandler(meter{}))...),
		window: int64(maxMessage) + readChunk,
	}
}

func (h *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := newMetered(r.Body, h.window)
	body.cut = func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) }
	r = r.WithContext(context.WithValue(r.Context(), meteredKey{}, body))
	r.Body = body
	h.server.ServeHTTP(w, r)
}

// metered is a body that is read at most a window ahead of the messages read from it. Otherwise grpc reads everything
// into memory, without limit while a call reads no messages.
type metered struct {
	io.ReadCloser
	cut func() // ends a write that the client does not read

	mu        sync.Mutex
	available sync.Cond
	window    int64 // may be read
	closed    bool
}

type meteredKey struct{}

// cutHTTP cuts off the answer of a call over HTTP. It ignores other calls, which end when their handler returns, even
// during a write.
func cutHTTP(ctx context.Context) {
	if body, ok := ctx.Value(meteredKey{}).(*metered); ok {
		body.cut()
	}
}

var errBodyClosed = errors.New("body closed by handler") // grpc knows this text

func newMetered(body io.ReadCloser, window int64) *metered {
	m := &metered{ReadCloser: body, window: window}
	m.available.L = &m.mu
	return m
}

func (m *metered) Read(p []byte) (int, error) {
	m.mu.Lock()
	for m.window <= 0 && !m.closed {
		m.available.Wait()
	}
	if m.closed {
		m.mu.Unlock()
		return 0, errBodyClosed
	}
	p = p[:min(int64(len(p)), m.window)]
	m.mu.Unlock()
	n, err := m.ReadCloser.Read(p)
	m.mu.Lock()
	m.window -= int64(n)
	m.mu.Unlock()
	return n, err
}

// release records that a message of n bytes no longer waits.
func (m *metered) release(n int64) {
	m.mu.Lock()
	m.window += n
	m.mu.Unlock()
	m.available.Signal()
}

func (m *metered) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.available.Signal()
	return m.ReadCloser.Close()
}

// meter reports to bodies the messages that were read from them.
type meter struct{}

var _ stats.Handler = meter{}

func (meter) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		if body, ok := ctx.Value(meteredKey{}).(*metered); ok {
			body.release(int64(in.WireLength))
		}
	}
}

func (meter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (meter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (meter) HandleConn(context.Context, stats.ConnStats)                       {}
