package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/otlp"
)

// lastSpans is how long a server that stops tries to send its last spans.
const lastSpans = 3 * time.Second

// checkTracing also checks settings that only a server with traces uses: whoever turns them on later meets no error.
func (s *settings) checkTracing() error {
	if rate := s.tracing.PerMillion; rate < 0 || rate > otlp.Million {
		return fmt.Errorf("%w: --distributed-tracing-sampling-rate is %d: it must be from 0 to %d", errSettings, rate,
			otlp.Million)
	}
	address := s.tracing.Address
	if address == "" && !s.traces {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if n, notNumber := strconv.ParseUint(port, 10, 16); err != nil || notNumber != nil || n == 0 {
		return fmt.Errorf("%w: --distributed-tracing-address %q: write host:port, such as localhost:4317", errSettings,
			withoutPasswords(address))
	}
	return nil
}

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
