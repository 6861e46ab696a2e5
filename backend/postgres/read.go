package postgres

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Clock implements [backend.Backend].
func (b *Backend) Clock(ctx context.Context) (clock backend.Clock, err error) {
	err = b.query(ctx, "read the clock", nil, func(s *scanner) error { clock = s.clock(); return nil }, readClock)
	return clock, err
}

// Range implements [backend.Backend].
func (b *Backend) Range(ctx context.Context, q backend.RangeQuery) (rows []backend.Row, clock backend.Clock, err error) {
	form, span := shape(q.Span)
	keysOnly := 0
	if q.KeysOnly {
		keysOnly = 1
	}
	err = b.query(ctx, "read a range", func() { rows = rows[:0] }, func(s *scanner) error {
		if clock = s.clock(); !s.null() {
			rows = append(rows, backend.Row{})
			s.row(&rows[len(rows)-1], !q.KeysOnly)
		}
		return nil
	}, listSQL[form][keysOnly], append([]any{q.Revision, int64(q.Limit)}, span...)...)
	sortByKey(rows)
	return rows, clock, err
}

// sortByKey sorts rows that are nearly always sorted already: the statements keep the order of the index, but do not say so, since
// saying it costs another sort.
func sortByKey(rows []backend.Row) {
	byKey := func(a, b backend.Row) int { return bytes.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(rows, byKey) {
		slices.SortFunc(rows, byKey)
	}
}

// Count implements [backend.Backend].
func (b *Backend) Count(ctx context.Context, s backend.Span, revision int64) (n int64, clock backend.Clock, err error) {
	form, span := shape(s)
	err = b.query(ctx, "count a range", nil, func(s *scanner) error {
		clock, n = s.clock(), s.integer()
		return nil
	}, countSQL[form], append([]any{revision}, span...)...)
	return n, clock, err
}

// Rows implements [backend.Backend].
func (b *Backend) Rows(ctx context.Context, ids []backend.RowID) (rows []backend.Row, clock backend.Clock, err error) {
	rows = make([]backend.Row, len(ids))
	revisions, ordinals := make([]int64, len(ids)), make([]int32, len(ids))
	for i, id := range ids {
		revisions[i], ordinals[i] = id.ModRevision, id.Ordinal
	}
	err = b.query(ctx, "read rows", nil, func(s *scanner) error {
		if clock = s.clock(); !s.null() {
			s.row(&rows[s.integer()-1], true)
		}
		return nil
	}, rowsByID, revisions, ordinals)
	return rows, clock, err
}

// Leases implements [backend.Backend].
func (b *Backend) Leases(ctx context.Context) (leases []backend.Lease, err error) {
	err = b.query(ctx, "read leases", func() { leases = nil }, func(s *scanner) error {
		leases = append(leases, backend.Lease{ID: s.integer(), TTL: time.Duration(s.integer()) * time.Second})
		return nil
	}, "SELECT id, ttl FROM leases ORDER BY id")
	return leases, err
}

// Alarms implements [backend.Backend].
func (b *Backend) Alarms(ctx context.Context) (alarms []backend.Alarm, err error) {
	err = b.query(ctx, "read alarms", func() { alarms = nil }, func(s *scanner) error {
		alarms = append(alarms, backend.Alarm{Member: uint64(s.integer()), Kind: int32(s.integer())})
		return nil
	}, readAlarms)
	return alarms, err
}
