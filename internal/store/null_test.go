package store

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

// null is a backend that keeps only its clock, so that benchmarks over it measure the engine alone. Everything that the
// engine looks for must be in its memory.
type null struct {
	backend.Backend // nil: benchmarks need no other methods
	clock           backend.Clock
	rows            int
}

func newNull() *null { return &null{clock: backend.Clock{Revision: 1}} }

func (n *null) Settings(context.Context) (backend.Settings, error) {
	return backend.Settings{ClusterID: 1, MemberID: 1}, nil
}
func (n *null) Clock(context.Context) (backend.Clock, error)    { return n.clock, nil }
func (n *null) Leases(context.Context) ([]backend.Lease, error) { return nil, nil }
func (n *null) Alarms(context.Context) ([]backend.Alarm, error) { return nil, nil }
func (n *null) Import(context.Context) (backend.Import, error)  { return backend.Import{}, nil }
func (n *null) Auth(context.Context) (backend.Auth, error)      { return backend.Auth{}, nil }
func (n *null) Size(context.Context) (backend.Size, error)      { return backend.Size{}, nil }
func (n *null) Begin(context.Context, backend.Needs) (backend.Tx, error) {
	return &nullTx{n, backend.Loaded{Clock: n.clock}}, nil
}

// Range serves the loading of the index and returns no rows.
func (n *null) Range(context.Context, backend.RangeQuery) ([]backend.Row, backend.Clock, error) {
	return nil, backend.Clock{Revision: 1 << 40}, nil
}

type nullTx struct {
	n      *null
	loaded backend.Loaded
}

func (t *nullTx) Loaded() *backend.Loaded { return &t.loaded }
func (t *nullTx) Rollback()               {}
func (t *nullTx) Commit(_ context.Context, e *backend.Effects) error {
	t.n.clock.Revision = e.Revision
	t.n.clock.Compacted = max(t.n.clock.Compacted, e.Compacted)
	t.n.rows += len(e.Rows)
	return nil
}
