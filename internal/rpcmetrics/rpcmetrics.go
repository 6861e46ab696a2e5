// Package rpcmetrics counts gRPC calls under the names that go-grpc-middleware's Prometheus provider made common
// (grpc_server_started_total, grpc_server_handled_total, grpc_server_msg_received_total, grpc_server_msg_sent_total
// and, optionally, the histogram grpc_server_handling_seconds).
//
// That provider looks up labels for each count, which costs 0.6 us, 1.4 us with the histogram, and two allocations in a
// call that takes 22 us in all. This package needs one map lookup and four atomic additions, 0.03 us; reading the clock
// twice and the histogram make it 0.2 us.
package rpcmetrics

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/exemplar"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

const lastCode = codes.Unauthenticated

// Metrics counts the calls of one server. It implements [prometheus.Collector].
type Metrics struct {
	mu      sync.Mutex // for writers
	methods atomic.Pointer[map[string]*method]
	seconds *prometheus.HistogramVec // nil: durations are not measured
	tracer  *tracing.Tracer          // finds the exemplars of durations
}

type method struct {
	labels                  [3]string // type, service, method
	started, received, sent atomic.Uint64
	handled                 [lastCode + 1]atomic.Uint64
	seconds                 prometheus.Observer // or nil
}

// New returns empty Metrics. If durations is set, they include a histogram of call durations, with the traces that
// tracer, which may be nil, makes of the calls as exemplars.
func New(durations bool, tracer *tracing.Tracer) *Metrics {
	m := &Metrics{tracer: tracer}
	if durations {
		m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_server_handling_seconds", Buckets: prometheus.DefBuckets,
			Help: "Histogram of response latency (seconds) of gRPC that had been application-level handled by the " +
				"server.",
		}, labels)
	}
	m.methods.Store(&map[string]*method{})
	return m
}

// Initialize creates the counters of all methods of a server, so that they exist, as zeros, before the first call.
func (m *Metrics) Initialize(s *grpc.Server) {
	for service, info := range s.GetServiceInfo() {
		for _, i := range info.Methods {
			m.method("/"+service+"/"+i.Name, i.IsClientStream, i.IsServerStream)
		}
	}
}

func (m *Metrics) method(full string, client, server bool) *method {
	if c := (*m.methods.Load())[full]; c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.methods.Load()
	if c := old[full]; c != nil {
		return c
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	c := &method{labels: [3]string{kind(client, server), service, name}}
	if m.seconds != nil {
		c.seconds = m.seconds.WithLabelValues(c.labels[:]...)
	}
	methods := maps.Clone(old)
	methods[full] = c
	m.methods.Store(&methods)
	return c
}

func kind(client, server bool) string {
	switch {
	case client && server:
		return "bidi_stream"
	case client:
		return "client_stream"
	case server:
		return "server_stream"
	}
	return "unary"
}

// begin counts the start of a call and returns the argument for end.
func (c *method) begin() (began time.Time) {
	c.started.Add(1)
	if c.seconds != nil {
		began = time.Now()
	}
	return began
}

// end counts the end of a call with a span.
func (c *method) end(span tracing.Span, began time.Time, err error) {
	code := codes.OK
	if err != nil {
		s, ok := status.FromError(err)
		if !ok {
			s = status.FromContextError(err) // as grpc-go answers it
		}
		code = s.Code()
	}
	c.handled[min(code, lastCode)].Add(1)
	if c.seconds != nil {
		exemplar.Observe(c.seconds, time.Since(began).Seconds(), span.Trace())
	}
}

// Unary counts unary calls.
func (m *Metrics) Unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	c := m.method(info.FullMethod, false, false)
	began := c.begin()
	c.received.Add(1)
	resp, err := handler(ctx, req)
	if err == nil {
		c.sent.Add(1)
	}
	c.end(m.tracer.Of(ctx), began, err)
	return resp, err
}

// Stream counts streams and their messages.
func (m *Metrics) Stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := m.method(info.FullMethod, info.IsClientStream, info.IsServerStream)
	began := c.begin()
	err := handler(srv, &stream{s, c})
	c.end(m.tracer.Of(s.Context()), began, err)
	return err
}

type stream struct {
	grpc.ServerStream
	counts *method
}

func (s *stream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.counts.sent.Add(1)
	}
	return err
}

func (s *stream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.counts.received.Add(1)
	}
	return err
}

var (
	labels  = []string{"grpc_type", "grpc_service", "grpc_method"}
	started = prometheus.NewDesc("grpc_server_started_total", "Total number of RPCs started on the server.", labels,
		nil)
	handled = prometheus.NewDesc("grpc_server_handled_total",
		"Total number of RPCs completed on the server, regardless of success or failure.", append(labels, "grpc_code"),
		nil)
	received = prometheus.NewDesc("grpc_server_msg_received_total",
		"Total number of RPC stream messages received on the server.", labels, nil)
	sent = prometheus.NewDesc("grpc_server_msg_sent_total",
		"Total number of gRPC stream messages sent by the server.", labels, nil)
)

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{started, handled, received, sent} {
		out <- d
	}
	if m.seconds != nil {
		m.seconds.Describe(out)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range *m.methods.Load() {
		count := func(d *prometheus.Desc, n *atomic.Uint64, more ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()),
				append(c.labels[:], more...)...)
		}
		count(started, &c.started)
		count(received, &c.received)
		count(sent, &c.sent)
		for code := range c.handled {
			count(handled, &c.handled[code], codes.Code(code).String())
		}
	}
	if m.seconds != nil {
		m.seconds.Collect(out)
	}
}
