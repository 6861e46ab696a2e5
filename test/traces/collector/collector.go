// Package collector runs the OTLP receiver of OpenTelemetry's collector in a test's process, and keeps the spans that
// it receives.
package collector

import (
	"context"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// Collector is a running receiver.
type Collector struct {
	// Address is its host and port, for OTLP over gRPC.
	Address string
	// Arrived has a value when spans have arrived since it was last read.
	Arrived chan struct{}

	received consumertest.TracesSink
}

// Span is a received span.
type Span struct {
	// Service is the name of the service that sent it.
	Service string
	// Name, Trace, ID, Parent and Kind are the span's; Kind is in lower case.
	Name, Trace, ID, Parent, Kind string
	// Attributes are its attributes and those of its service, as text.
	Attributes map[string]string
	// Links are the ids of the spans that it names.
	Links []string
}

// Start starts a receiver that ends with the test.
func Start(tb testing.TB) *Collector {
	tb.Helper()
	address, err := launch.FreeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	c := &Collector{Address: address, Arrived: make(chan struct{}, 1)}
	keep, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
		err := c.received.ConsumeTraces(ctx, td)
		select {
		case c.Arrived <- struct{}{}:
		default:
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	err = confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{"grpc": map[string]any{"endpoint": address}},
	}).Unmarshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := factory.CreateTraces(tb.Context(), receivertest.NewNopSettings(factory.Type()), config, keep)
	if err != nil {
		tb.Fatal(err)
	}
	if err := r.Start(tb.Context(), componenttest.NewNopHost()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Shutdown(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Spans returns what was received so far.
func (c *Collector) Spans() (all []Span) {
	for _, batch := range c.received.AllTraces() {
		for _, of := range batch.ResourceSpans().All() {
			about := of.Resource().Attributes()
			for _, scope := range of.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					span := Span{
						Name: s.Name(), Trace: s.TraceID().String(), ID: s.SpanID().String(),
						Parent: s.ParentSpanID().String(), Kind: s.Kind().String(), Attributes: map[string]string{},
					}
					for _, from := range []pcommon.Map{about, s.Attributes()} {
						for key, value := range from.All() {
							span.Attributes[key] = value.AsString()
						}
					}
					span.Service = span.Attributes["service.name"]
					for _, link := range s.Links().All() {
						span.Links = append(span.Links, link.SpanID().String())
					}
					all = append(all, span)
				}
			}
		}
	}
	return all
}
