package kine

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// A statement inserts up to batchRows rows, and no more than batchBytes of values unless one is larger. A statement for
// each row would spend most of its time on the way to the server.
const (
	batchRows  = 200
	batchBytes = 1 << 20
)

// inserter inserts rows into kine's table, many with a statement.
type inserter struct {
	tx      *sql.Tx
	dialect dialect
	full    *sql.Stmt // inserts batchRows
	args    []any
	rows    int
	bytes   int
}

func newInserter(tx *sql.Tx, d dialect) *inserter { return &inserter{tx: tx, dialect: d} }

// row inserts a row, sooner or later. It does not keep the value.
func (i *inserter) row(
	ctx context.Context, id int64, name string, created, deleted, create, prev, ttl int64, value []byte,
) error {
	i.args = append(i.args, id, name, created, deleted, create, prev, ttl, bytes.Clone(value))
	i.rows++
	i.bytes += len(value)
	if i.rows < batchRows && i.bytes < batchBytes {
		return nil
	}
	return i.flush(ctx)
}

// end inserts the last rows, and links all of them.
func (i *inserter) end(ctx context.Context) error {
	if err := i.flush(ctx); err != nil {
		return err
	}
	if _, err := i.tx.ExecContext(ctx, i.dialect.link()); err != nil {
		return fmt.Errorf("link rows: %w", err)
	}
	return nil
}

func (i *inserter) flush(ctx context.Context) (err error) {
	switch {
	case i.rows == 0:
		return nil
	case i.rows < batchRows:
		_, err = i.tx.ExecContext(ctx, i.statement(i.rows), i.args...)
	default:
		if i.full == nil {
			if i.full, err = i.tx.PrepareContext(ctx, i.statement(batchRows)); err != nil {
				break
			}
		}
		_, err = i.full.ExecContext(ctx, i.args...)
	}
	if err != nil {
		return fmt.Errorf("write rows up to revision %d: %w", i.args[len(i.args)-columns], err)
	}
	clear(i.args)
	i.args, i.rows, i.bytes = i.args[:0], 0, 0
	return nil
}

// columns is how many a row has, except for old_value.
const columns = 8

// statement inserts a number of rows.
func (i *inserter) statement(rows int) string {
	var b strings.Builder
	b.WriteString(`INSERT INTO kine (id, name, created, deleted, create_revision, prev_revision, lease, value) VALUES `)
	for n := range rows * columns {
		switch {
		case n == 0:
			b.WriteString("(")
		case n%columns == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		b.WriteString(i.dialect.parameter(n + 1))
	}
	b.WriteString(")")
	return b.String()
}
