package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// However many reads take long, those of few rows and those of the store's own go on.
func TestLongReads(t *testing.T) {
	t.Parallel()
	b := openTest(t, Config{DSN: database(t), MaxConns: 10})
	most := int(b.reads.pool.Config().MaxConns) - 2
	if most < 2 {
		t.Fatalf("%d long reads at a time", most)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range most + 3 {
		go func() {
			l, ignore := b.laneForMany(ctx), func(*scanner) error { return nil }
			ended <- l.query(ctx, "hang", nil, ignore, "SELECT pg_sleep(60)::text")
		}()
	}
	eventually(t, "long reads run", func() bool { return int(b.reads.pool.Stat().AcquiredConns()) == most })
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
		"the store": func() error {
			_, err := b.History(backend.Maintenance(t.Context()), backend.HistoryQuery{Limit: 1})
			return err
		},
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := int(b.reads.pool.Stat().AcquiredConns()); n != most {
		t.Errorf("%d long reads at a time, want %d", n, most)
	}
	cancel()
	for range most + 3 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a long read: %v", err)
		}
	}
}
