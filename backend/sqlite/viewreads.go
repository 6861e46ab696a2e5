package sqlite

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

// Range implements [backend.View].
func (v *View) Range(ctx context.Context, q backend.RangeQuery) (rows []backend.Row, clock backend.Clock, err error) {
	clock, err = v.read(ctx, "read a range", func(backend.Clock) error {
		rows, err = v.c.list(q)
		return err
	})
	return rows, clock, err
}

// History implements [backend.View].
func (v *View) History(ctx context.Context, q backend.HistoryQuery) (h backend.History, err error) {
	h.Clock, err = v.read(ctx, "read history", func(now backend.Clock) error {
		until := now.Revision
		if q.Until > 0 {
			until = min(until, q.Until)
		}
		h.Changes, h.Through, err = v.c.history(q, until)
		return err
	})
	return h, err
}

// read runs f between two reads of the clock, which a server may move meanwhile. The clock that it returns holds for
// what f has read: f saw the revisions up to the first one, and a compaction up to the second may have removed rows
// from f.
func (v *View) read(ctx context.Context, doing string, f func(backend.Clock) error) (backend.Clock, error) {
	clock, err := v.Clock(ctx)
	if err != nil {
		return backend.Clock{}, err
	}
	if err := f(clock); err != nil {
		return backend.Clock{}, translate(doing, err)
	}
	now, err := v.Clock(ctx)
	clock.Compacted, clock.Epoch = now.Compacted, now.Epoch
	return clock, err
}
