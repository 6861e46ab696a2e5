// Package sqlstoretest starts sqlstore in the tests of other programs: inside the test's own process, on a temporary store and a
// free port of the loopback, in milliseconds. It needs nothing installed. Package container starts it in a container.
package sqlstoretest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore"
)

// startTimeout bounds the start of a server that has to reach a database.
const startTimeout = time.Minute

// Option changes the configuration of the server that [Start] starts.
type Option func(*sqlstore.Config)

// Start starts a server and closes it when the test ends; its Endpoints are for the client. Without options the store is temporary
// and is gone then: nothing is synced to disk. What the server warns of is in the test's log.
func Start(tb testing.TB, options ...Option) *sqlstore.Server {
	tb.Helper()
	cfg := sqlstore.Config{Logger: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for _, o := range options {
		o(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := sqlstore.Start(ctx, cfg)
	if err != nil {
		tb.Fatalf("start sqlstore: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close sqlstore: %v", err)
		}
	})
	return s
}
