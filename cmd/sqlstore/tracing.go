package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/otlp"
)

// lastSpans is how long a server that stops tries to send its last spans.
const lastSpans = 3 * time.Second

// startTracing makes the server's spans go to the collector that the flags name, if they do. Call end after the server
// has closed.
func (s *settings) startTracing(log *slog.Logger) (end func(), err error) {
	if !s.traces {
		return func() {}, nil
	}
	provider, err := otlp.Start(s.tracing, log)
	if err != nil {
		return nil, err
	}
	s.config.TracerProvider = provider
	log.Info("sending traces", "collector", s.tracing.Address, "service", s.tracing.Service,
		"instance", s.tracing.Instance, "begun-per-million", s.tracing.PerMillion)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans were not sent", "collector", s.tracing.Address, "error", err)
		}
	}, nil
}
