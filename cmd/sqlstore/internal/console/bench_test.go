package console_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/console"
)

// BenchmarkSample measures what a sample of the metrics costs.
func BenchmarkSample(b *testing.B) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var c *console.Console
	server, err := sqlstore.Start(b.Context(), sqlstore.Config{
		ListenConsoleURLs: []string{"http://127.0.0.1:0"}, Logger: log,
		Console: func(ctx context.Context, local http.Handler) http.Handler {
			c = console.New(ctx, local, console.Options{Logger: log, SampleEvery: time.Hour})
			return c
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	b.ReportAllocs()
	for b.Loop() {
		c.Sample(b.Context())
	}
}
