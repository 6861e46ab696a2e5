package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/telemetry"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// scrape reads the metrics as Prometheus asks for them.
func scrape(t *testing.T, m *telemetry.Metrics) (kind, body string) {
	t.Helper()
	_, s := newServer(t, false)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	w := httptest.NewRecorder()
	m.Handler(s, "3.7.3", newAlarmed(s)).ServeHTTP(w, r)
	return w.Header().Get("Content-Type"), w.Body.String()
}

// Latencies of recorded requests name a trace, if scrapers want them in OpenMetrics.
func TestExemplars(t *testing.T) {
	tracer := tracing.New(sdk.NewTracerProvider())
	m := telemetry.New(telemetry.Config{Version: "3.7.3", Extensive: true, Tracer: tracer})
	ctx, span := tracer.Serve(t.Context(), "call", func(context.Context, string) string { return "" })
	_, err := m.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Put"},
		func(context.Context, any) (any, error) { return struct{}{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	m.Batch(store.Batch{Operations: 1, Commit: 3 * time.Millisecond, Trace: span.Trace()})
	m.Batch(store.Batch{Operations: 1, Commit: 30 * time.Millisecond})
	kind, body := scrape(t, m)
	if !strings.HasPrefix(kind, "application/openmetrics-text") {
		t.Errorf("answered as %s", kind)
	}
	for _, series := range []string{
		`grpc_server_handling_seconds_bucket{[^}]*grpc_method="Put"[^}]*}`,
		`etcd_server_request_duration_seconds_bucket{[^}]*type="Put"[^}]*}`,
		`etcd_disk_wal_fsync_duration_seconds_bucket{le="0.004"}`,
		`etcd_disk_backend_commit_duration_seconds_bucket{le="0.004"}`,
	} {
		if !regexp.MustCompile(`(?m)^` + series + ` \d+ # \{trace_id="` + span.Trace() + `"\}`).MatchString(body) {
			t.Errorf("no exemplar of %s", series)
		}
	}
	if regexp.MustCompile(`le="0\.032"\} \d+ #`).MatchString(body) {
		t.Error("a batch without a trace has an exemplar")
	}
}

// Without traces, metrics keep the format that etcd has: in OpenMetrics some names and buckets look different.
func TestNoExemplars(t *testing.T) {
	kind, _ := scrape(t, telemetry.New(telemetry.Config{Version: "3.7.3"}))
	if !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("answered as %s", kind)
	}
}
