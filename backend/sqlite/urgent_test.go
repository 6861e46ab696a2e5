package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// The reads of a batch do not wait for those of clients.
func TestUrgentReads(t *testing.T) {
	b := openTest(t, Config{Path: filepath.Join(t.TempDir(), "db")})
	for range cap(b.readers) {
		c := <-b.readers
		defer func() { b.readers <- c }()
	}
	for range 2 {
		if _, err := b.Size(backend.Urgent(t.Context())); err != nil {
			t.Error(err)
		}
		if _, _, err := b.Rows(backend.Urgent(t.Context()), []backend.RowID{{ModRevision: 1}}, 0); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := b.Size(ctx)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("another read: %v", err)
	}
}
