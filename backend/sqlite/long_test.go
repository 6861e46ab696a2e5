package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// However many reads take long, those of few rows and those of the store's own go on.
func TestLongReads(t *testing.T) {
	b := openTest(t, Config{Path: filepath.Join(t.TempDir(), "db"), Readers: 3})
	ctx, cancel := context.WithCancel(t.Context())
	hang, running, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	for range 5 {
		go func() {
			_, err := b.readMany(ctx, "hang", func(*conn) error {
				running <- struct{}{}
				<-hang
				return nil
			})
			ended <- err
		}()
	}
	<-running
	<-running
	span := backend.Span{Start: []byte("a"), End: []byte("b")}
	for name, read := range map[string]func() error{
		"rows": func() error {
			_, _, err := b.Rows(backend.Brief(t.Context()), []backend.RowID{{ModRevision: 1}, {ModRevision: 2}}, 0)
			return err
		},
		"a row": func() error {
			_, _, err := b.Rows(t.Context(), []backend.RowID{{ModRevision: 1}}, 0)
			return err
		},
		"whether a key exists": func() error {
			_, _, err := b.Count(t.Context(), backend.RangeQuery{Span: backend.Span{Start: []byte("a")}, Revision: 1})
			return err
		},
		"compaction": func() error {
			_, err := b.Purge(t.Context(), 1, 1)
			return err
		},
		"a key": func() error {
			_, _, err := b.Range(t.Context(), backend.RangeQuery{
				Span: backend.Span{Start: []byte("a")}, Revision: 1, Limit: 1,
			})
			return err
		},
		"a token": func() error {
			_, _, err := b.AuthToken(t.Context(), [32]byte{})
			return err
		},
		"a batch": func() error {
			_, _, err := b.Count(backend.Urgent(t.Context()), backend.RangeQuery{Span: span, Revision: 1})
			return err
		},
		"the store": func() error {
			_, err := b.History(backend.Maintenance(t.Context()), backend.HistoryQuery{Limit: 1})
			return err
		},
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, read := range map[string]func(ctx context.Context) error{
		"a count": func(ctx context.Context) error {
			_, _, err := b.Count(ctx, backend.RangeQuery{Span: span, Revision: 1})
			return err
		},
		"a range": func(ctx context.Context) error {
			_, _, err := b.Range(ctx, backend.RangeQuery{Span: span, Revision: 1, Limit: 1})
			return err
		},
		"many rows": func(ctx context.Context) error {
			_, _, err := b.Rows(ctx, []backend.RowID{{ModRevision: 1}, {ModRevision: 2}}, 0)
			return err
		},
		"history": func(ctx context.Context) error {
			_, err := b.History(ctx, backend.HistoryQuery{Limit: 1})
			return err
		},
	} {
		limited, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := read(limited); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s did not wait for long reads: %v", name, err)
		}
		stop()
	}
	cancel()
	for range 3 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a long read beside others: %v", err)
		}
	}
	close(hang)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
