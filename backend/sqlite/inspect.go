package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/sqlstore/sqlstore/backend"
)

// inspectRows is how many rows one statement reads for an inspection: the log cannot start again while it runs.
const inspectRows = 512

// Inspect implements [backend.View]. SQLite itself compares the indexes with the tables, in both directions.
func (v *View) Inspect(ctx context.Context, i *backend.Inspection) error {
	clock, err := v.Clock(ctx)
	if err != nil {
		return err
	}
	for next := int64(0); ; {
		rows := 0
		err := v.c.each(ctx, inspectedRows, func(row []driver.Value) bool {
			in := inspected(row)
			rows, next, clock = rows+1, integer(row[1])+1, in.Clock
			if revision := integer(row[valueColumns]); revision != in.Row.ModRevision {
				i.Problem("the row of revision %d says that it is of revision %d", in.Row.ModRevision, revision)
			}
			in.Bare = in.Bare && in.Row.ModRevision <= v.since
			i.Row(&in)
			return true
		}, next, int64(inspectRows))
		if err != nil {
			return translate("read rows", err)
		}
		if rows < inspectRows {
			break
		}
	}
	i.Ended(clock)
	i.At("structure", 0)
	err = v.integrity(ctx, i)
	i.At("structure", 1)
	return err
}

// inspected reads a row of inspectedRows.
func inspected(row []driver.Value) (in backend.Inspected) {
	readRow(&in.Row, row[:valueColumns])
	in.Bare, in.Sum, in.Written = row[rowColumns+1] == nil, integer(row[rowColumns+1]), integer(row[rowColumns+2])
	rest := row[valueColumns+1:]
	in.Clock = backend.Clock{Revision: integer(rest[0]), Compacted: integer(rest[1])}
	if id := rest[2]; id != nil {
		in.Prev = &backend.Row{
			ModRevision: revisionOf(integer(id)), CreateRevision: integer(rest[3]), Version: integer(rest[4]),
		}
	}
	return in
}

// integrity runs SQLite's own check of the file.
func (v *View) integrity(ctx context.Context, i *backend.Inspection) error {
	rows, err := v.c.c.QueryContext(ctx, "PRAGMA integrity_check(100)", nil)
	if err != nil {
		return translate("check the file's structure", err)
	}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return rows.Close()
		}
		if err != nil {
			return errors.Join(translate("check the file's structure", err), rows.Close())
		}
		if said := fmt.Sprint(row[0]); said != "ok" {
			i.Problem("SQLite says: %s", said)
		}
	}
}
