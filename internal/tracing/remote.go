package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// The headers of W3C's Trace Context.
const (
	// Parent is the header with the client's span.
	Parent = "traceparent"
	// State is the header with further data of the client's tracing system.
	State = "tracestate"
)

// extract returns ctx with the client's span that the headers name, if they do.
func extract(ctx context.Context, header func(name string) string) context.Context {
	if header(Parent) == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, carrier(header))
}

// carrier reads headers for a propagator.
type carrier func(name string) string

// Get implements [propagation.TextMapCarrier].
func (c carrier) Get(name string) string { return c(name) }

// Set implements [propagation.TextMapCarrier].
func (carrier) Set(string, string) {}

// Keys implements [propagation.TextMapCarrier].
func (carrier) Keys() []string { return []string{Parent, State} }
