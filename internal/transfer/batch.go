package transfer

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

// batch is rows that are written together. It owns their bytes.
type batch struct {
	rows  []backend.Row
	arena []byte
}

// add copies a row. Rows that were added before keep their bytes if the arena grows.
func (b *batch) add(r *backend.Row) {
	if free := cap(b.arena) - len(b.arena); free < int(r.Size()) {
		b.arena = make([]byte, 0, max(batchBytes/4, int(r.Size())))
	}
	c := *r
	c.Key = b.clone(r.Key)
	if !r.Deleted {
		c.Value = b.clone(r.Value)
	}
	b.rows = append(b.rows, c)
}

func (b *batch) clone(p []byte) []byte {
	from := len(b.arena)
	b.arena = append(b.arena, p...)
	return b.arena[from:len(b.arena):len(b.arena)]
}

// batchReader gathers the source's rows in batches.
type batchReader struct {
	l     *loader
	after int64 // the revision up to which the target has the rows
	to    chan<- *batch
	next  *batch
	bytes int64 // in next
	done  Progress
}

func (q *batchReader) row(ctx context.Context, r *backend.Row) error {
	row := *r
	if err := q.l.links.add(&row); err != nil {
		return err
	}
	if n := len(q.next.rows); n > 0 && (n >= q.l.o.batchRows || q.bytes >= batchBytes) &&
		q.next.rows[n-1].ModRevision != row.ModRevision {
		if err := q.send(ctx); err != nil {
			return err
		}
	}
	q.done.Rows++
	q.done.Bytes += row.Size()
	if row.ModRevision > q.after {
		q.next.add(&row)
		q.bytes += row.Size()
	} else if q.done.Rows%batchRows == 0 {
		q.report()
	}
	return nil
}

// send hands the batch over to be written.
func (q *batchReader) send(ctx context.Context) error {
	q.report()
	full := q.next
	q.next, q.bytes = &batch{rows: make([]backend.Row, 0, q.l.o.batchRows)}, 0
	select {
	case q.to <- full:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *batchReader) report() {
	q.done.Step = "writing"
	q.l.progress(q.done)
	q.l.result.Rows, q.l.result.Bytes = q.done.Rows, q.done.Bytes
}
