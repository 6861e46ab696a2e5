// Package sqlstoretest starts sqlstore in the tests of other programs: inside the test process, on a temporary store
// and a free port of the loopback interface, within milliseconds. It needs nothing installed. Package container starts
// it in a container.
package sqlstoretest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore"
)

// startTimeout limits the start of a server that has to reach a database.
const startTimeout = time.Minute

// Option changes the configuration of the server that [Start] starts.
type Option func(*sqlstore.Config)

// Start starts a server and closes it when the test ends. Connect clients to its Endpoints. Without options the store
// is temporary: nothing is synced to disk, and it is removed at the end. The test's log shows the server's warnings.
func Start(tb testing.TB, options ...Option) *sqlstore.Server {
	tb.Helper()
	cfg := sqlstore.Config{
		Logger: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
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
