package rpcmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sort"
	"strings"
	"testing"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/rpcmetrics"
)

// gather returns the metrics as text, sorted.
func gather(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			value := m.Counter.GetValue()
			if f.GetType() == dto.MetricType_HISTOGRAM { // how many, not how long
				value = float64(m.Histogram.GetSampleCount())
				labels["buckets"] = fmt.Sprint(len(m.Histogram.Bucket), m.Histogram.Bucket[0].GetUpperBound())
			}
			lines = append(lines, fmt.Sprintln(f.GetName(), f.GetHelp(), labels, value))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}

// The same calls, counted by both, must give the same metrics.
func TestSameAsProvider(t *testing.T) {
	t.Run("counters", func(t *testing.T) { compare(t, rpcmetrics.New(false, nil), grpcprom.NewServerMetrics()) })
	t.Run("durations, too", func(t *testing.T) {
		compare(t, rpcmetrics.New(true, nil), grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram()))
	})
}

func compare(t *testing.T, ours *rpcmetrics.Metrics, theirs *grpcprom.ServerMetrics) {
	t.Helper()
	refuse := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		switch req.(*healthpb.HealthCheckRequest).GetService() {
		case "denied":
			return nil, status.Error(codes.PermissionDenied, "no")
		case "odd":
			return nil, errors.New("no status")
		case "late":
			return nil, context.DeadlineExceeded
		}
		return next(ctx, req)
	}
	s := grpc.NewServer(
		grpc.ChainUnaryInterceptor(theirs.UnaryServerInterceptor(), ours.Unary, refuse),
		grpc.ChainStreamInterceptor(theirs.StreamServerInterceptor(), ours.Stream),
	)
	healthpb.RegisterHealthServer(s, health.NewServer())
	ours.Initialize(s)
	theirs.InitializeMetrics(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	c := healthpb.NewHealthClient(conn)
	for _, service := range []string{"", "", "denied", "odd", "unknown", "late"} {
		_, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if (err == nil) != (service == "") {
			t.Errorf("%q: %v", service, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := c.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := w.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Error("the stream did not end")
	}
	s.GracefulStop()
	got, want := gather(t, ours), gather(t, theirs)
	if got != want {
		t.Errorf("sqlstore's:\n%s\n\ngo-grpc-prometheus':\n%s", got, want)
	}
}

func BenchmarkUnary(b *testing.B) {
	info := &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Range"}
	next := func(context.Context, any) (any, error) { return nil, nil }
	for name, around := range map[string]grpc.UnaryServerInterceptor{
		"ours": rpcmetrics.New(false, nil).Unary, "provider": grpcprom.NewServerMetrics().UnaryServerInterceptor(),
		"ours with durations": rpcmetrics.New(true, nil).Unary,
		"provider with durations": grpcprom.NewServerMetrics(
			grpcprom.WithServerHandlingTimeHistogram()).UnaryServerInterceptor(),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = around(context.Background(), nil, info, next)
			}
		})
	}
}
