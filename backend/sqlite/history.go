package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// historyWindow limits the number of revisions that one call scans for the rows of a span, so that its duration does
// not depend on how rare they are. Through reports how far the scan came.
const historyWindow = 8192

// History implements [backend.Backend].
func (b *Backend) History(ctx context.Context, q backend.HistoryQuery) (backend.History, error) {
	var h backend.History
	clock, err := b.readMany(ctx, "read history", func(c *conn) error {
		until := b.clock.Load().Revision
		if q.Until > 0 {
			until = min(until, q.Until)
		}
		var err error
		h.Changes, h.Through, err = c.history(q, until)
		return err
	})
	h.Clock = clock
	return h, err
}

// Superseded implements [backend.Backend].
func (b *Backend) Superseded(
	ctx context.Context, q backend.SupersededQuery,
) (ids []backend.RowID, clock backend.Clock, err error) {
	clock, err = b.readMany(ctx, "read which rows are superseded", func(c *conn) error {
		return c.each(context.Background(), superseded, func(row []driver.Value) bool {
			id := integer(row[0])
			ids = append(ids, backend.RowID{ModRevision: revisionOf(id), Ordinal: ordinalOf(id)})
			return true
		}, listOf(q.Rows), q.Revision)
	})
	return ids, clock, err
}

func (c *conn) history(q backend.HistoryQuery, until int64) (changes []backend.Change, through int64, err error) {
	if until <= q.After {
		return nil, q.After, nil
	}
	form, spanArgs := historyForm(q.Span)
	if form == historyBounded || form == historyUnbounded {
		until = min(until, q.After+historyWindow)
	}
	id := history + statement(form*4)
	width := valueColumns
	if q.KeysOnly {
		id++
		width = rowColumns
	}
	if q.WithPrev {
		id += 2
	}
	through = until
	left := bound(q.Bytes)
	err = c.eachRow(id, func(row []driver.Value) (bool, error) {
		if n := len(changes); (n >= q.Limit || left <= 0) && n > 0 &&
			changes[n-1].Row.ModRevision != revisionOf(integer(row[1])) {
			through = changes[n-1].Row.ModRevision
			return false, nil
		}
		changes = append(changes, backend.Change{})
		ch := &changes[len(changes)-1]
		if err := c.scanRow(&ch.Row, row[:width]); err != nil {
			return false, err
		}
		left -= ch.Row.Size()
		if q.WithPrev && row[width] != nil {
			ch.Prev = new(backend.Row)
			if err := c.scanRow(ch.Prev, row[width:]); err != nil {
				return false, err
			}
			left -= ch.Prev.Size()
		}
		return true, nil
	}, append([]driver.Value{firstID(q.After + 1), firstID(until + 1)}, spanArgs...)...)
	if form == historyOfKey {
		slices.SortFunc(changes, func(a, b backend.Change) int {
			return cmp.Compare(rowID(a.Row.ModRevision, a.Row.Ordinal), rowID(b.Row.ModRevision, b.Row.Ordinal))
		})
	}
	return changes, through, err
}

func historyForm(s backend.Span) (form int, args []driver.Value) {
	switch {
	case len(s.Start) == 0 && s.End == nil: // all keys; no key is empty
		return historyAll, nil
	case s.End == nil:
		return historyOfKey, []driver.Value{s.Start}
	case len(s.End) != 0:
		if bytes.Equal(s.End, successor(s.Start)) {
			return historyOfKey, []driver.Value{notNil(s.Start)}
		}
		return historyBounded, []driver.Value{notNil(s.Start), s.End}
	case bytes.Compare(s.Start, []byte{0}) <= 0: // [NUL, no bound) is everything, as etcd's clients write it
		return historyAll, nil
	}
	return historyUnbounded, []driver.Value{notNil(s.Start)}
}

// notNil returns an empty slice for a nil key, so that it is stored as an empty BLOB and not as NULL.
func notNil(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}
