package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Span is a part of a request's time, in a trace. A zero Span records nothing.
type Span struct {
	span  trace.Span
	spans trace.Tracer
}

// On reports whether the span is recorded.
func (s Span) On() bool { return s.span != nil }

// Child begins a span within s.
func (s Span) Child(name string) Span {
	if s.span == nil {
		return Span{}
	}
	return s.child(name)
}

// ChildSince begins a span within s that began earlier.
func (s Span) ChildSince(name string, began time.Time) Span {
	if s.span == nil {
		return Span{}
	}
	return s.child(name, trace.WithTimestamp(began))
}

func (s Span) child(name string, options ...trace.SpanStartOption) Span {
	_, child := s.spans.Start(s.In(context.Background()), name, options...)
	return Span{child, s.spans}
}

// In returns ctx with the span.
func (s Span) In(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// Link says that the span belongs to another one, too, which may be in another trace.
func (s Span) Link(to Span) {
	if s.span != nil && to.span != nil {
		s.span.AddLink(trace.Link{SpanContext: to.span.SpanContext()})
	}
}

// Number sets an attribute.
func (s Span) Number(key string, n int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(key, n))
	}
}

// Text sets an attribute.
func (s Span) Text(key, text string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, text))
	}
}

// RPC sets the attributes of a gRPC call.
func (s Span) RPC(method string) {
	if s.span != nil {
		s.span.SetAttributes(rpcSystem.String("grpc"), rpcMethod.String(method))
	}
}

// SQL sets the attributes of a statement, or of several with the text "". Its arguments are not among them.
func (s Span) SQL(database, text string) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(system.String(database))
	if text != "" {
		s.span.SetAttributes(query.String(text))
	}
}

// Fail records an error, unless it is nil.
func (s Span) Fail(err error) {
	if s.span != nil && err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
}

// End ends the span. Later calls have no effect.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// EndAt ends the span at a time in the past.
func (s Span) EndAt(at time.Time) {
	if s.span != nil {
		s.span.End(trace.WithTimestamp(at))
	}
}

// Trace returns the id of the span's trace, "" if it is not recorded.
func (s Span) Trace() string {
	if s.span == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}
