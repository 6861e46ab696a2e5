package postgres

import (
	"bytes"
	"context"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// Clock implements [backend.Backend].
func (b *Backend) Clock(ctx context.Context) (clock backend.Clock, err error) {
	err = b.control.query(ctx, "read the clock", func() { clock = backend.Clock{} }, func(s *scanner) error {
		clock = s.clock()
		return nil
	}, readClock)
	if err == nil {
		err = found(clock)
	}
	return clock, err
}

// found returns [backend.ErrNoClock] unless a clock was read. Epochs begin at 1, so epoch 0 means that there was none.
func found(clock backend.Clock) error {
	if clock.Epoch == 0 {
		return backend.ErrNoClock
	}
	return nil
}

// rangeOf is Range for a span whose bounds apply to the column key, in the order of that column. See [Backend.Range]
// for long keys.
func (b *Backend) rangeOf(
	ctx context.Context, q backend.RangeQuery,
) (rows []backend.Row, clock backend.Clock, err error) {
	form, args := shape(q.Span)
	args = append([]any{q.Revision, int64(q.Limit)}, args...)
	if q.Bytes <= 0 || q.KeysOnly || form == single {
		return b.list(ctx, q, listSQL[form][index(q.KeysOnly)], false, args)
	}
	if q.Limit > fewRows {
		if rows, clock, err = b.list(ctx, q, listSparingSQL[form], true, args); err != nil ||
			!slices.ContainsFunc(rows, spared) {
			return rows, clock, err
		}
	}
	return b.list(ctx, q, listWithinSQL[form], false, append(args, q.Bytes))
}

// fewRows is a number of rows so small that the cost of counting their bytes on the server does not matter.
const fewRows = 16

// spared reports whether the row's value is large and was left out.
func spared(r backend.Row) bool { return r.Value == nil && r.Key != nil && !r.Deleted }

// list reads the rows of a statement for q, up to q.Bytes.
func (b *Backend) list(
	ctx context.Context, q backend.RangeQuery, sql string, sparing bool, args []any,
) (rows []backend.Row, clock backend.Clock, err error) {
	sql, args = underPin(q.Pin, sql, args)
	var read int64
	reset := func() { rows, clock, read = rows[:0], backend.Clock{}, 0 }
	err = b.laneForMany(ctx).query(ctx, "read a range", reset, func(s *scanner) error {
		if clock = s.clock(); !s.null() && !reached(read, q.Bytes) {
			rows = append(rows, backend.Row{})
			r := &rows[len(rows)-1]
			s.sparing = sparing
			s.row(r, !q.KeysOnly)
			read += r.Size()
			if r.Deleted { // the newest row of a single key
				rows = rows[:len(rows)-1]
			}
		}
		return nil
	}, sql, args...)
	sortByKey(rows)
	return rows, clock, err
}

// sortByKey sorts rows that are nearly always sorted already: the statements return them in index order, but do not ask
// for it with ORDER BY, because that would cost another sort.
func sortByKey(rows []backend.Row) {
	byKey := func(a, b backend.Row) int { return bytes.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(rows, byKey) {
		slices.SortFunc(rows, byKey)
	}
}

// Rows implements [backend.Backend].
func (b *Backend) Rows(
	ctx context.Context, ids []backend.RowID, bytes int64,
) (rows []backend.Row, clock backend.Clock, err error) {
	ctx = backend.RowsPriority(ctx, len(ids))
	revisions, ordinals := idColumns(ids)
	if bytes <= 0 {
		return b.rows(ctx, ids, bytes, rowsByID, false, revisions, ordinals)
	}
	if len(ids) > fewRows {
		if rows, clock, err = b.rows(ctx, ids, bytes, rowsSparing, true, revisions, ordinals); err != nil ||
			!slices.ContainsFunc(rows, spared) {
			return rows, clock, err
		}
	}
	return b.rows(ctx, ids, bytes, rowsWithin, false, revisions, ordinals, bytes)
}

// idColumns returns ids as the arguments of a statement.
func idColumns(ids []backend.RowID) (revisions []int64, ordinals []int32) {
	revisions, ordinals = make([]int64, len(ids)), make([]int32, len(ids))
	for i, id := range ids {
		revisions[i], ordinals[i] = id.ModRevision, id.Ordinal
	}
	return revisions, ordinals
}

// rows reads the rows of a statement for ids, up to bytes bytes.
func (b *Backend) rows(
	ctx context.Context, ids []backend.RowID, bytes int64, sql string, sparing bool, args ...any,
) (rows []backend.Row, clock backend.Clock, err error) {
	rows = make([]backend.Row, len(ids))
	var read, last int64
	reset := func() {
		clear(rows) // another server may lack what the last one had
		clock, read, last = backend.Clock{}, 0, 0
	}
	err = b.laneForMany(ctx).query(ctx, "read rows", reset, func(s *scanner) error {
		if clock = s.clock(); !s.null() && !reached(read, bytes) {
			last = s.integer()
			r := &rows[last-1]
			s.sparing = sparing
			s.row(r, true)
			read += r.Size()
			if r.ID() != ids[last-1] { // the index leads to another row
				return &backend.CorruptRow{Key: r.Key, ID: ids[last-1]}
			}
		}
		return nil
	}, sql, args...)
	if reached(read, bytes) {
		rows = rows[:last]
	}
	return rows, clock, err
}

// Leases implements [backend.Backend].
func (b *Backend) Leases(ctx context.Context) ([]backend.Lease, error) {
	states, _, err := b.allLeases(ctx)
	if err != nil {
		return nil, err
	}
	leases := make([]backend.Lease, len(states))
	for i := range states {
		leases[i] = states[i].Lease
	}
	return leases, nil
}

// Alarms implements [backend.Backend].
func (b *Backend) Alarms(ctx context.Context) (alarms []backend.Alarm, err error) {
	err = b.laneFor(ctx).query(ctx, "read alarms", func() { alarms = nil }, func(s *scanner) error {
		alarms = append(alarms, backend.Alarm{Member: uint64(s.integer()), Kind: int32(s.integer())})
		return nil
	}, readAlarms)
	return alarms, err
}
