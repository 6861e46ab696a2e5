package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
)

// TestBusyConnections lets statements wait in vain for a connection while others use all of them. No other connection
// is closed for that.
func TestBusyConnections(t *testing.T) {
	clock := func(b *Backend) error {
		_, err := b.Clock(t.Context())
		return err
	}
	list := func(b *Backend) error {
		_, _, err := b.Range(t.Context(), backend.RangeQuery{Revision: 1, Limit: 1, Span: backend.Span{End: []byte{}}})
		return err
	}
	for name, c := range map[string]struct {
		busy    func(b *Backend) *pgxpool.Pool
		waits   func(b *Backend) error
		other   func(b *Backend) *pgxpool.Pool
		another func(b *Backend) error
	}{
		"read": {readsOf, list, controlOf, clock},
		"transaction": {readsOf, func(b *Backend) error {
			return b.AddTokenKey(t.Context(), 0, []byte("k"))
		}, controlOf, clock},
		"write": {controlOf, func(b *Backend) error {
			_, err := b.Begin(t.Context(), backend.Needs{})
			return err
		}, readsOf, list},
		"confirmation": {controlOf, func(b *Backend) error {
			_, err := b.Confirm(t.Context(), backend.Member{ID: 7, Name: "a"})
			return err
		}, readsOf, list},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of its time
			b := openTest(t, Config{DSN: database(t), MaxConns: minConns})
			if err := c.another(b); err != nil {
				t.Fatal(err)
			}
			opened := c.other(b).Stat().NewConnsCount()
			pool := c.busy(b)
			for range pool.Config().MaxConns {
				held, err := pool.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer held.Release()
			}
			if err := c.waits(b); !errors.Is(err, errBusy) || !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("without a connection: %v", err)
			}
			if err := c.another(b); err != nil {
				t.Error(err)
			}
			if n := c.other(b).Stat().NewConnsCount(); n != opened {
				t.Errorf("the other pool has opened %d connections, before %d", n, opened)
			}
		})
	}
}

func readsOf(b *Backend) *pgxpool.Pool   { return b.reads.pool }
func controlOf(b *Backend) *pgxpool.Pool { return b.control.pool }
