package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"strconv"

	"github.com/sqlstore/sqlstore/backend"
)

// rowColumns counts those of the constant columns.
const rowColumns = 7

func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

// scanRow takes a row from the columns and, when there is one more, its value.
func scanRow(r *backend.Row, row []driver.Value) {
	id := integer(row[1])
	r.Key, _ = row[0].([]byte)
	r.ModRevision, r.Ordinal = revisionOf(id), ordinalOf(id)
	r.Deleted = integer(row[2]) != 0
	r.CreateRevision = integer(row[3])
	r.Version = integer(row[4])
	r.Lease = integer(row[5])
	r.PrevRevision = integer(row[6])
	if len(row) > rowColumns {
		r.Value, _ = row[rowColumns].([]byte)
	}
}

// successor is the least key greater than key.
func successor(key []byte) []byte { return append(slices.Clip(key), 0) }

// shape turns a span into the arguments that follow the revision.
func shape(s backend.Span) (form int, args []driver.Value) {
	start := notNil(s.Start)
	switch {
	case s.End == nil:
		return bounded, []driver.Value{start, successor(start)}
	case len(s.End) == 0:
		return unbounded, []driver.Value{start}
	}
	return bounded, []driver.Value{start, s.End}
}

// Range implements [backend.Backend].
func (b *Backend) Range(ctx context.Context, q backend.RangeQuery) (rows []backend.Row, clock backend.Clock, err error) {
	clock, err = b.read(ctx, "read a range", func(c *conn) error {
		rows, err = c.list(q)
		return err
	})
	return rows, clock, err
}

func (c *conn) list(q backend.RangeQuery) ([]backend.Row, error) {
	if q.End == nil {
		return c.get(q.Start, q.Revision, q.KeysOnly)
	}
	form, args := shape(q.Span)
	id, width := listRange+statement(form*2), rowColumns+1
	if q.KeysOnly {
		id, width = id+1, rowColumns
	}
	args = append([]driver.Value{q.Revision}, args...)
	if form == unbounded {
		args = append(args, nil) // ?3 is not used
	}
	var rows []backend.Row
	err := c.each(context.Background(), id, func(row []driver.Value) bool {
		rows = append(rows, backend.Row{})
		scanRow(&rows[len(rows)-1], row[:width])
		return true
	}, append(args, int64(q.Limit))...)
	return rows, err
}

// get is the range of a single key.
func (c *conn) get(key []byte, revision int64, keysOnly bool) (rows []backend.Row, err error) {
	id, width := newestRow, rowColumns+1
	if keysOnly {
		id, width = newestKey, rowColumns
	}
	err = c.each(context.Background(), id, func(row []driver.Value) bool {
		var r backend.Row
		if scanRow(&r, row[:width]); r.Key != nil && !r.Deleted {
			rows = []backend.Row{r}
		}
		return false
	}, notNil(key), revision)
	return rows, err
}

// Count implements [backend.Backend].
func (b *Backend) Count(ctx context.Context, s backend.Span, revision int64) (n int64, clock backend.Clock, err error) {
	form, args := shape(s)
	clock, err = b.read(ctx, "count a range", func(c *conn) error {
		return c.each(ctx, countRange+statement(form), func(row []driver.Value) bool {
			n = integer(row[0])
			return true
		}, append([]driver.Value{revision}, args...)...)
	})
	return n, clock, err
}

// Rows implements [backend.Backend].
func (b *Backend) Rows(ctx context.Context, ids []backend.RowID) (rows []backend.Row, clock backend.Clock, err error) {
	rows = make([]backend.Row, len(ids))
	clock, err = b.read(ctx, "read rows", func(c *conn) error { return c.rowsByID(ids, rows) })
	return rows, clock, err
}

// rowsByID puts the row with ids[i] into rows[i].
func (c *conn) rowsByID(ids []backend.RowID, rows []backend.Row) error {
	// All ids in one argument: a query of its own for each row would cost half as much again.
	list := make([]byte, 0, 2+16*len(ids))
	list = append(list, '[')
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		n := int64(-1) // of no row
		if valid(id.ModRevision, id.Ordinal) {
			n = rowID(id.ModRevision, id.Ordinal)
		}
		list = strconv.AppendInt(list, n, 10)
	}
	list = append(list, ']')
	i := 0
	return c.each(context.Background(), rowsByID, func(row []driver.Value) bool {
		var r backend.Row
		scanRow(&r, row)
		for ids[i] != r.ID() {
			i++ // is gone
		}
		rows[i] = r
		i++
		return true
	}, string(list))
}
