package sqlite

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

const system = "sqlite" // OpenTelemetry's name

// begin begins the span of a call, if ctx has a recorded one.
func (b *Backend) begin(ctx context.Context, doing string) (context.Context, tracing.Span) {
	ctx, span := b.tracer.Begin(ctx, doing)
	span.SQL(system, "")
	return ctx, span
}

// commit ends the open transaction. Most of the time goes into the sync of the write-ahead log, which SQLite does
// within the statement; it has its own span.
func (c *conn) commit(within tracing.Span) error {
	if !within.On() {
		_, err := c.run(commit)
		return err
	}
	span := within.Child("COMMIT")
	span.SQL(system, statements[commit])
	var err error
	began := time.Now()
	after, took := pagesum.TimeSyncs(func() { _, err = c.run(commit) })
	if took > 0 {
		synced := span.ChildSince("sync", began.Add(after))
		synced.EndAt(began.Add(after + took))
	}
	span.Fail(err)
	span.End()
	return err
}

// finish ends the span of a read that returned rows.
func finish(span tracing.Span, rows int, err error) {
	span.Number(tracing.Rows, int64(rows))
	span.Fail(err)
	span.End()
}
