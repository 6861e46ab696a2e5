// Package tracing makes the spans of OpenTelemetry's traces. It uses OpenTelemetry's API only: the caller that
// starts a server chooses where spans go, and only cmd/sqlstore links an exporter.
//
// Without tracing there is a nil [Tracer], which makes zero Spans, and a zero [Span] records nothing. A call of either
// costs a comparison and no allocation, so callers need no conditions of their own. Attributes have methods by type,
// because a list of attributes would be allocated before anyone knows that it is not wanted.
//
// Spans have no keys and no values: a collector may be open to more people than the database.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// scope names this program's spans among those of others.
const scope = "github.com/sqlstore/sqlstore"

// Tracer makes spans. A nil Tracer makes none.
type Tracer struct{ spans trace.Tracer }

// New returns a Tracer whose spans go to p, or nil if p is nil.
func New(p trace.TracerProvider) *Tracer {
	if p == nil {
		return nil
	}
	return &Tracer{p.Tracer(scope)}
}

// Serve begins the span of a request, which continues the trace of its client. The header with a name, "" if there is
// none, comes from header. The returned context has the span, if it is recorded.
func (t *Tracer) Serve(
	ctx context.Context, name string, header func(ctx context.Context, name string) string,
) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	parent := extract(ctx, func(name string) string { return header(ctx, name) })
	in, s := t.spans.Start(parent, name, trace.WithSpanKind(trace.SpanKindServer))
	if !s.IsRecording() {
		return ctx, Span{}
	}
	return in, Span{s, t.spans}
}

// Of returns the recorded span of a context, or a zero Span.
func (t *Tracer) Of(ctx context.Context) Span {
	if t == nil {
		return Span{}
	}
	return t.of(ctx)
}

func (t *Tracer) of(ctx context.Context) Span {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		return Span{s, t.spans}
	}
	return Span{}
}

// Begin begins a span within that of the context, if the context has a recorded one. The returned context has the new
// span.
func (t *Tracer) Begin(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	outer := t.of(ctx)
	if !outer.On() {
		return ctx, Span{}
	}
	s := outer.Child(name)
	return s.In(ctx), s
}

// Detached returns a context that never ends and has the span of ctx.
func (t *Tracer) Detached(ctx context.Context) context.Context {
	if t == nil {
		return context.Background()
	}
	return t.of(ctx).In(context.Background())
}

// The attributes that OpenTelemetry's conventions do not have.
const (
	// Revision is the store's revision after a write, or that of a read.
	Revision = "sqlstore.revision"
	// Rows is how many rows a read returned, or a batch or a statement wrote.
	Rows = "sqlstore.rows"
	// BatchSize is how many operations were committed together.
	BatchSize = "sqlstore.batch.size"
)

// The attributes of OpenTelemetry's conventions in use.
const (
	system    = attribute.Key("db.system.name")
	query     = attribute.Key("db.query.text")
	rpcSystem = attribute.Key("rpc.system.name")
	rpcMethod = attribute.Key("rpc.method")
)
