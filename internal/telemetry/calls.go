package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/rpcmetrics"
)

// calls counts gRPC calls.
type calls struct {
	unary        grpc.UnaryServerInterceptor
	stream       grpc.StreamServerInterceptor
	initialize   func(*grpc.Server)
	requests     *requests
	rangeStreams atomic.Uint64
	failed       prometheus.Counter
}

func newCalls(m *Metrics, extensive bool) *calls {
	c := &calls{
		requests: newRequests(m, extensive),
		failed: m.counter("etcd_server_proposals_failed_total",
			"Writes that failed, or whose outcome is unknown, through no fault of the client."),
	}
	ranges, txns := &c.requests.of(rangeMethod).calls, &c.requests.of(txnMethod).calls
	m.counterFunc("etcd_mvcc_range_total", "Range and RangeStream calls.", func() float64 {
		return float64(ranges.Load() + c.rangeStreams.Load())
	})
	m.counterFunc("etcd_mvcc_txn_total", "Txn calls.", func() float64 { return float64(txns.Load()) })
	rpc := rpcmetrics.New(extensive, m.tracer)
	m.Registry.MustRegister(rpc)
	c.unary, c.stream, c.initialize = rpc.Unary, rpc.Stream, rpc.Initialize
	return c
}

// Unary counts unary calls, as an interceptor.
func (m *Metrics) Unary() grpc.UnaryServerInterceptor {
	c := m.calls
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		r := c.requests.of(info.FullMethod)
		n := r.calls.Add(1)
		sampled := (n-1)%r.every == 0
		var began time.Time
		if sampled {
			began = r.begin()
		}
		resp, err := c.unary(ctx, req, info, handler)
		if sampled {
			r.end(ctx, n, began, err, m.tracer.Of(ctx).Trace())
		}
		if err != nil && c.isFailure(info.FullMethod, err) {
			c.failed.Inc()
		}
		return resp, err
	}
}

// isFailure reports whether a write failed because of the server.
func (c *calls) isFailure(method string, err error) bool {
	switch method {
	case "/etcdserverpb.KV/Put", "/etcdserverpb.KV/DeleteRange", "/etcdserverpb.KV/Txn", "/etcdserverpb.KV/Compact",
		"/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Lease/LeaseRevoke":
	default:
		return false
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown:
		return true
	}
	return false
}

// Stream counts streaming calls, as an interceptor.
func (m *Metrics) Stream() grpc.StreamServerInterceptor {
	c := m.calls
	return func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		r := c.requests.streams // long-lived: they are counted when they begin
		r.add(sample{number: r.calls.Add(1), version: r.clients.version(s.Context())})
		switch info.FullMethod {
		case "/etcdserverpb.KV/RangeStream":
			c.rangeStreams.Add(1)
		case snapshotMethod:
			defer func(began time.Time) { c.requests.snapshot.Observe(time.Since(began).Seconds()) }(time.Now())
		}
		return c.stream(srv, s, info, handler)
	}
}

// Attach adds what comes from the gRPC server: zeros for all its methods, and the bytes of its messages, from traffic.
func (m *Metrics) Attach(g *grpc.Server, traffic func() (received, sent uint64)) {
	m.calls.initialize(g)
	for name, read := range map[string]func() float64{
		"received": func() float64 { n, _ := traffic(); return float64(n) },
		"sent":     func() float64 { _, n := traffic(); return float64(n) },
	} {
		m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "etcd_network_client_grpc_" + name + "_bytes_total",
			Help: "Bytes of all messages " + name + " by gRPC.",
		}, read))
	}
}
