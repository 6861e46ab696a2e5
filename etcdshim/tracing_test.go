package etcdshim

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/metadata"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

// Calls over gRPC, over HTTP and through the gateway continue the client's trace, down to the commit; others have none.
func TestTracedCalls(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans),
		sdk.WithSampler(sdk.ParentBased(sdk.NeverSample()))))
	s := serve(t, Options{Tracer: tracer}, store.Config{Tracer: tracer})
	s.put(t, "k", "v")
	if n := len(spans.Ended()); n != 0 {
		t.Fatalf("%d spans without a client's trace", n)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), tracing.Parent, parent)
	check := func(what, name string) {
		t.Helper()
		got := map[string]sdk.ReadOnlySpan{}
		for _, span := range spans.Ended() {
			got[span.Name()] = span
		}
		spans.Reset()
		call, batch := got[name], got["batch"]
		if call == nil || batch == nil {
			t.Fatalf("%s: spans %v", what, got)
		}
		if call.SpanContext().TraceID().String() != traceID || !call.Parent().IsRemote() ||
			batch.Parent().SpanID() != call.SpanContext().SpanID() {
			t.Errorf("%s: trace %v, parent %v", what, call.SpanContext().TraceID(), call.Parent())
		}
	}
	put := &pb.PutRequest{Key: []byte("k"), Value: []byte("v")}
	if _, err := s.kv.Put(ctx, put); err != nil {
		t.Fatal(err)
	}
	check("gRPC", "etcdserverpb.KV/Put")
	if _, err := pb.NewKVClient(s.overHTTP(t)).Put(ctx, put); err != nil {
		t.Fatal(err)
	}
	check("HTTP", "etcdserverpb.KV/Put")

	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v3/kv/put", strings.NewReader(`{"key":"aw=="}`))
	r.Header.Set("Traceparent", parent)
	w := httptest.NewRecorder()
	s.Gateway.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	check("gateway", "etcdserverpb.KV/Put")

	alive, err := s.lease.LeaseKeepAlive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := alive.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := alive.Recv(); err == nil {
		t.Fatal("an answer to no question")
	}
	if got := spans.Ended(); len(got) != 1 || got[0].Name() != "etcdserverpb.Lease/LeaseKeepAlive" {
		t.Errorf("spans of a stream: %v", got)
	}
}

// A call's span has the status that the client gets.
func TestTracedFailure(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	s := serve(t, Options{Tracer: tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))}, store.Config{})
	if _, err := s.kv.Put(t.Context(), &pb.PutRequest{}); err == nil {
		t.Fatal("an empty key was put")
	}
	got := spans.Ended()
	if len(got) != 1 || got[0].Status().Description == "" {
		t.Fatalf("spans %v", got)
	}
	for _, a := range got[0].Attributes() {
		if a.Key == "rpc.response.status_code" && a.Value.AsString() == "InvalidArgument" {
			return
		}
	}
	t.Errorf("attributes %v", got[0].Attributes())
}
