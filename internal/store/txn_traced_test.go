package store

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sqlstore/sqlstore/internal/tracing"
)

// traces returns a tracer that records the requests whose context [traced] made.
func traces() (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))), spans
}

func traced(ctx context.Context, tracer *tracing.Tracer, name string) (context.Context, tracing.Span) {
	return tracer.Serve(ctx, name, func(context.Context, string) string { return "" })
}

// inside returns the ended spans of a request's trace, by name.
func inside(spans *tracetest.SpanRecorder, request tracing.Span) map[string]sdk.ReadOnlySpan {
	found := map[string]sdk.ReadOnlySpan{}
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID().String() == request.Trace() {
			found[s.Name()] = s
		}
	}
	return found
}

func numbers(s sdk.ReadOnlySpan) map[attribute.Key]int64 {
	out := map[attribute.Key]int64{}
	for _, a := range s.Attributes() {
		if a.Value.Type() == attribute.INT64 {
			out[a.Key] = a.Value.AsInt64()
		}
	}
	return out
}

// Each recorded request of a batch has its own spans of the wait and of the batch; the first also has the commit.
func TestTracedBatch(t *testing.T) {
	tracer, spans := traces()
	s := openStore(t, openSQLite(t), Config{Tracer: tracer})
	write := func(ctx context.Context, key string) *call {
		c := s.newCall(ctx, &txnOperation{txn: &Txn{Success: []Op{{Put: &PutRequest{Key: []byte(key)}}}}})
		c.waits = awaitBatch(ctx, tracer)
		return c
	}
	first, one := traced(within(t), tracer, "first")
	second, two := traced(within(t), tracer, "second")
	calls := []*call{write(within(t), "a"), write(first, "b"), write(second, "c")}
	from := s.Revision()
	s.seq.commit(slices.Clone(calls), false)
	for _, c := range calls {
		if c.err != nil {
			t.Fatal(c.err)
		}
	}
	for i, request := range []tracing.Span{one, two} {
		got := inside(spans, request)
		wait, batch := got["wait for a batch"], got["batch"]
		if wait == nil || batch == nil {
			t.Fatalf("request %d has the spans %v", i, got)
		}
		if batch.StartTime().Before(wait.EndTime()) {
			t.Error("the batch began before the wait for it was over")
		}
		want := map[attribute.Key]int64{
			tracing.Revision: from + 2 + int64(i), tracing.BatchSize: 3, tracing.Rows: 3,
		}
		for key, n := range numbers(batch) {
			if want[key] != n {
				t.Errorf("request %d: %s is %d, want %d", i, key, n, want[key])
			}
			delete(want, key)
		}
		if len(want) > 0 {
			t.Errorf("request %d: no %v", i, want)
		}
	}
	if links := inside(spans, two)["batch"].Links(); len(links) != 1 ||
		links[0].SpanContext.TraceID().String() != one.Trace() {
		t.Errorf("the second request's batch has the links %v", links)
	}
}

// A write through the store's own queue has the spans, and a read says what it read.
func TestTracedRequests(t *testing.T) {
	tracer, spans := traces()
	s := openStore(t, openSQLite(t), Config{Tracer: tracer})
	ctx, request := traced(within(t), tracer, "put")
	put, err := s.Put(ctx, &PutRequest{Key: []byte("k")})
	if err != nil {
		t.Fatal(err)
	}
	got := inside(spans, request)
	if batch := got["batch"]; batch == nil || numbers(batch)[tracing.Revision] != put.Revision {
		t.Errorf("revision %d, spans %v", put.Revision, got)
	}
	ctx, request = traced(within(t), tracer, "range")
	if _, err := s.Range(ctx, &RangeRequest{Key: []byte("k")}); err != nil {
		t.Fatal(err)
	}
	request.End()
	read := numbers(inside(spans, request)["range"])
	if read[tracing.Revision] != put.Revision || read[tracing.Rows] != 1 {
		t.Errorf("a read has %v, the revision is %d", read, put.Revision)
	}
}

// A request that gives up ends its wait.
func TestTracedAbandoned(t *testing.T) {
	tracer, spans := traces()
	s := openStore(t, openSQLite(t), Config{Tracer: tracer})
	s.seq.queue.close()
	ctx, request := traced(within(t), tracer, "put")
	if _, err := s.Put(ctx, &PutRequest{Key: []byte("k")}); err == nil {
		t.Fatal("a closed queue took a write")
	}
	if got := inside(spans, request); got["wait for a batch"] == nil || got["batch"] != nil {
		t.Errorf("spans %v", got)
	}
}
