// Package otlp sends spans to a collector, by OpenTelemetry's protocol over gRPC, as etcd does.
//
// OpenTelemetry's own environment variables apply where no flag does, such as OTEL_RESOURCE_ATTRIBUTES,
// OTEL_EXPORTER_OTLP_HEADERS and OTEL_BSP_SCHEDULE_DELAY.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/loglimit"
)

// Million is the base of [Config.PerMillion].
const Million = 1_000_000

// Config says where spans go, and which.
type Config struct {
	// Address is the host and port of the collector.
	Address string
	// Service and Instance name this server. Instance may be empty.
	Service, Instance string
	// PerMillion is how many traces begin per million requests without one. Requests with one are recorded if and only
	// if their client says so.
	PerMillion int
}

// Start returns a provider whose spans go to the collector, which may come later. Shut it down to send the last ones.
func Start(cfg Config, log *slog.Logger) (*sdk.TracerProvider, error) {
	exporter, err := otlptracegrpc.New(context.Background(), otlptracegrpc.WithInsecure(),
		otlptracegrpc.WithEndpoint(cfg.Address))
	if err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", cfg.Address, err)
	}
	report(log, cfg.Address)
	return sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(cfg.resource()),
		sdk.WithSampler(sdk.ParentBased(cfg.sampler()))), nil
}

// sampler chooses among the requests that continue no trace.
func (c *Config) sampler() sdk.Sampler {
	if c.PerMillion == 0 {
		return sdk.NeverSample()
	}
	return sdk.TraceIDRatioBased(float64(c.PerMillion) / Million)
}

// resource describes this server.
func (c *Config) resource() *resource.Resource {
	attributes := []attribute.KeyValue{
		attribute.String("service.name", c.Service), attribute.String("service.version", sqlstore.Version),
	}
	if c.Instance != "" {
		attributes = append(attributes, attribute.String("service.instance.id", c.Instance))
	}
	return resource.NewSchemaless(attributes...)
}

// report logs OpenTelemetry's errors, such as that of a collector that is not there, without repeating them each time.
func report(log *slog.Logger, address string) {
	limit := &loglimit.Limit{Lines: 1, Period: time.Minute}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if skipped, ok := limit.Allow(); ok {
			log.Warn("traces are not sent", "collector", address, "error", err, "not-logged-before", skipped)
		}
	}))
}
