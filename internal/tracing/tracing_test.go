package tracing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/sqlstore/sqlstore/internal/tracing"
)

const (
	traceID  = "0af7651916cd43dd8448eb211c80319c"
	spanID   = "b7ad6b7169203331"
	sampled  = "00-" + traceID + "-" + spanID + "-01"
	unwanted = "00-" + traceID + "-" + spanID + "-00"
)

// newTracer returns a tracer that begins a trace for all or none of the requests that have none, and its spans.
func newTracer(begins bool) (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans, root := tracetest.NewSpanRecorder(), sdk.NeverSample()
	if begins {
		root = sdk.AlwaysSample()
	}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans), sdk.WithSampler(sdk.ParentBased(root)))
	return tracing.New(provider), spans
}

func headers(parent string) func(context.Context, string) string {
	return func(_ context.Context, name string) string {
		if name == tracing.Parent {
			return parent
		}
		return ""
	}
}

// A request continues its client's trace if the client records it, whatever the rate.
func TestServe(t *testing.T) {
	for name, c := range map[string]struct {
		parent         string
		begins         bool
		records, joins bool
	}{
		"sampled":               {sampled, false, true, true},
		"sampled, with a rate":  {sampled, true, true, true},
		"unsampled":             {unwanted, false, false, false},
		"unsampled with a rate": {unwanted, true, false, false},
		"none":                  {"", false, false, false},
		"none, with a rate":     {"", true, true, false},
		"malformed":             {"00-" + traceID, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, spans := newTracer(c.begins)
			ctx, span := tracer.Serve(t.Context(), "call", headers(c.parent))
			inner, child := tracer.Begin(ctx, "part")
			if span.On() != c.records || child.On() != c.records || tracer.Of(ctx).On() != c.records {
				t.Fatalf("span %v, child %v, context %v", span.On(), child.On(), tracer.Of(ctx).On())
			}
			if !c.records && (ctx != t.Context() || inner != ctx || span.Trace() != "") {
				t.Error("a request that is not recorded costs a context")
			}
			child.End()
			span.End()
			ended := spans.Ended()
			if !c.records {
				if len(ended) > 0 {
					t.Errorf("%d spans", len(ended))
				}
				return
			}
			part, call := ended[0], ended[1]
			if part.Parent().SpanID() != call.SpanContext().SpanID() || call.SpanKind() != trace.SpanKindServer {
				t.Errorf("parent %v of a part of %v", part.Parent(), call.SpanContext())
			}
			joins := call.SpanContext().TraceID().String() == traceID && call.Parent().SpanID().String() == spanID
			if joins != c.joins || call.SpanContext().TraceID().String() != span.Trace() {
				t.Errorf("trace %v, parent %v", call.SpanContext().TraceID(), call.Parent().SpanID())
			}
		})
	}
}

// A context that outlives a request keeps its span, and nothing else.
func TestDetached(t *testing.T) {
	tracer, _ := newTracer(true)
	ctx, cancel := context.WithCancel(t.Context())
	ctx, span := tracer.Serve(ctx, "call", headers(""))
	cancel()
	detached := tracer.Detached(ctx)
	if detached.Err() != nil || tracer.Of(detached).Trace() != span.Trace() {
		t.Errorf("error %v, trace %q", detached.Err(), tracer.Of(detached).Trace())
	}
}

func none(context.Context, string) string { return "" }

// off makes every call that a put makes without tracing.
func off(ctx context.Context, t *tracing.Tracer, header func(context.Context, string) string, err error) {
	ctx, call := t.Serve(ctx, "etcdserverpb.KV/Put", header)
	call.RPC("etcdserverpb.KV/Put")
	request := t.Of(ctx)
	wait := request.Child("wait for a batch")
	wait.Fail(err)
	wait.End()
	batch := request.ChildSince("batch", time.Time{})
	batch.Link(wait)
	in, commit := t.Begin(batch.In(ctx), "commit")
	commit.SQL("sqlite", "COMMIT")
	commit.Number(tracing.Rows, 1)
	commit.EndAt(time.Time{})
	_ = t.Detached(in)
	batch.Text("outcome", "committed")
	batch.End()
	call.End()
}

func TestOffAllocatesNothing(t *testing.T) {
	ctx, err := t.Context(), errors.New("no")
	if n := testing.AllocsPerRun(100, func() { off(ctx, nil, none, err) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOff(b *testing.B) {
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		off(ctx, nil, none, nil)
	}
}

// The cost of a request that is not recorded, with tracing on.
func BenchmarkUnsampled(b *testing.B) {
	tracer, _ := newTracer(false)
	ctx := b.Context()
	for name, header := range map[string]func(context.Context, string) string{
		"without a trace": none, "with an unsampled trace": headers(unwanted),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				off(ctx, tracer, header, nil)
			}
		})
	}
}
