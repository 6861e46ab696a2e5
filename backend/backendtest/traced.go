package backendtest

import (
	"bytes"
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// Traced writes two rows and reads them within a span "request", and returns all spans. It checks that they belong to
// one trace and contain no keys, and that the same calls without a recorded span make none. open opens an empty
// database whose spans go to the provider.
func Traced(t *testing.T, open func(p trace.TracerProvider) backend.Backend) []sdk.ReadOnlySpan {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	b := open(provider)
	writeAndRead(t.Context(), t, b, 2)
	if n := len(spans.Started()); n != 0 {
		t.Fatalf("%d spans outside a request", n)
	}
	ctx, request := tracing.New(provider).Serve(t.Context(), "request",
		func(context.Context, string) string { return "" })
	writeAndRead(ctx, t, b, 3)
	request.End()
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID().String() != request.Trace() {
			t.Errorf("%q is in another trace", s.Name())
		}
		for _, a := range s.Attributes() {
			if a.Value.Type() == attribute.STRING && bytes.Contains([]byte(a.Value.AsString()), tracedKey) {
				t.Errorf("%q contains a key: %v", s.Name(), a)
			}
		}
	}
	return spans.Ended()
}

var tracedKey = []byte("secret")

func writeAndRead(ctx context.Context, t *testing.T, b backend.Backend, revision int64) {
	t.Helper()
	tx, err := b.Begin(ctx, backend.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	row := backend.Row{
		Key: tracedKey, Value: []byte("v"), ModRevision: revision, CreateRevision: revision, Version: 1,
	}
	other := row
	other.Key, other.Ordinal = []byte("t"), 1
	if err := tx.Commit(ctx, &backend.Effects{
		Rows: []backend.Row{row, other}, Revision: revision, Batch: 1,
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Range(ctx, backend.RangeQuery{
		Span: backend.Span{Start: []byte("s"), End: []byte("z")}, Revision: revision, Limit: 9,
	}); err != nil {
		t.Fatal(err)
	}
}
