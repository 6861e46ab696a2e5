package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"math"
	"slices"
	"strconv"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// rowColumns is the number of columns in the constant columns.
	rowColumns = 7
	// valueColumns is the same with the value and what verifies it.
	valueColumns = rowColumns + 3
)

func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

// scanRow reads a row from the columns and, if there are more columns, its value, and verifies it.
func (c *conn) scanRow(r *backend.Row, row []driver.Value) error {
	readRow(r, row)
	if len(row) == rowColumns {
		return nil
	}
	return c.sums.Check(r, r.WrittenAt, integer(row[rowColumns+1]))
}

// readRow reads a row from the columns and, if there are more columns, its value.
func readRow(r *backend.Row, row []driver.Value) {
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
		r.WrittenAt = integer(row[rowColumns+2])
	}
}

// bound returns a byte limit for reads to count down; 0 or less means no limit.
func bound(bytes int64) int64 {
	if bytes <= 0 {
		return math.MaxInt64
	}
	return bytes
}

// successor returns the smallest key greater than key.
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
func (b *Backend) Range(
	ctx context.Context, q backend.RangeQuery,
) (rows []backend.Row, clock backend.Clock, err error) {
	ctx, span := b.begin(ctx, "read a range")
	defer func() { finish(span, len(rows), err) }()
	clock, err = b.readMany(q.Priority(ctx), "read a range", func(c *conn) error {
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
	id, width := listRange+statement(form*2), valueColumns
	if q.KeysOnly {
		id, width = id+1, rowColumns
	}
	args = append([]driver.Value{q.Revision}, args...)
	if form == unbounded {
		args = append(args, nil) // ?3 is not used
	}
	var rows []backend.Row
	left := bound(q.Bytes)
	err := c.eachRow(id, func(row []driver.Value) (more bool, err error) {
		rows = append(rows, backend.Row{})
		r := &rows[len(rows)-1]
		err = c.scanRow(r, row[:width])
		left -= r.Size()
		return left > 0, err
	}, append(args, int64(q.Limit))...)
	return rows, err
}

// get reads the range of a single key.
func (c *conn) get(key []byte, revision int64, keysOnly bool) (rows []backend.Row, err error) {
	id, width := newestRow, valueColumns
	if keysOnly {
		id, width = newestKey, rowColumns
	}
	err = c.eachRow(id, func(row []driver.Value) (more bool, err error) {
		if row[1] == nil { // newestKey has found none
			return false, nil
		}
		var r backend.Row
		if err = c.scanRow(&r, row[:width]); err == nil && !bytes.Equal(r.Key, key) {
			err = &backend.CorruptRow{Key: key, ID: r.ID()} // the index leads to another key's row
		}
		if err == nil && !r.Deleted {
			rows = []backend.Row{r}
		}
		return false, err
	}, notNil(key), revision)
	return rows, err
}

// Count implements [backend.Backend].
func (b *Backend) Count(ctx context.Context, q backend.RangeQuery) (n int64, clock backend.Clock, err error) {
	ctx, span := b.begin(ctx, "count a range")
	defer func() { finish(span, 1, err) }()
	form, args := shape(q.Span)
	clock, err = b.readMany(q.Priority(ctx), "count a range", func(c *conn) error {
		return c.each(ctx, countRange+statement(form), func(row []driver.Value) bool {
			n = integer(row[0])
			return true
		}, append([]driver.Value{q.Revision}, args...)...)
	})
	return n, clock, err
}

// Rows implements [backend.Backend].
func (b *Backend) Rows(
	ctx context.Context, ids []backend.RowID, bytes int64,
) (rows []backend.Row, clock backend.Clock, err error) {
	ctx, span := b.begin(ctx, "read rows")
	span.SQL(system, statements[rowsByID])
	defer func() { finish(span, len(rows), err) }()
	clock, err = b.readMany(backend.RowsPriority(ctx, len(ids)), "read rows", func(c *conn) error {
		rows, err = c.rowsByID(ids, bytes)
		return err
	})
	return rows, clock, err
}

func (c *conn) rowsByID(ids []backend.RowID, bytes int64) ([]backend.Row, error) {
	rows := make([]backend.Row, len(ids))
	i, left := 0, bound(bytes)
	err := c.eachRow(rowsByID, func(row []driver.Value) (bool, error) {
		var r backend.Row
		if err := c.scanRow(&r, row); err != nil {
			return false, err
		}
		for ids[i] != r.ID() {
			i++ // the row is gone
		}
		rows[i] = r
		i++
		left -= r.Size()
		return left > 0, nil
	}, listOf(ids))
	if left <= 0 {
		rows = rows[:i]
	}
	return rows, err
}

// listOf returns ids as one argument: a separate query for each row would cost half as much again.
func listOf(ids []backend.RowID) string {
	list := make([]byte, 0, 2+16*len(ids))
	list = append(list, '[')
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		n := int64(-1) // matches no row
		if valid(id.ModRevision, id.Ordinal) {
			n = rowID(id.ModRevision, id.Ordinal)
		}
		list = strconv.AppendInt(list, n, 10)
	}
	return string(append(list, ']'))
}
