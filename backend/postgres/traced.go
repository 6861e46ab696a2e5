package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/internal/tracing"
)

// statements makes the spans of what pgx does within a recorded request: each wait for a connection, each round trip,
// and each statement of a batch, with its rows. The server runs a batch's statements one after the other, so a
// statement's span begins where that before it ends.
type statements struct{ tracer *tracing.Tracer }

const system = "postgresql" // OpenTelemetry's name

// TraceQueryStart implements [pgx.QueryTracer].
func (s *statements) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	if !s.tracer.Of(ctx).On() {
		return ctx
	}
	ctx, span := s.tracer.Begin(ctx, summary(data.SQL))
	span.SQL(system, data.SQL)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (s *statements) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	span := s.tracer.Of(ctx)
	span.Number(tracing.Rows, data.CommandTag.RowsAffected())
	span.Fail(data.Err)
	span.End()
}

// TraceBatchStart implements [pgx.BatchTracer].
func (s *statements) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData,
) context.Context {
	ctx, span := s.tracer.Begin(ctx, "round trip")
	span.Number("db.operation.batch.size", int64(data.Batch.Len()))
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (s *statements) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	trip := s.tracer.Of(ctx)
	if !trip.On() {
		return
	}
	span := trip.ChildSince(summary(data.SQL), data.ReadStartTime)
	span.SQL(system, data.SQL)
	span.Number(tracing.Rows, data.CommandTag.RowsAffected())
	span.Fail(data.Err)
	span.End()
}

// TraceBatchEnd implements [pgx.BatchTracer].
func (s *statements) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	span := s.tracer.Of(ctx)
	span.Fail(data.Err)
	span.End()
}

// TraceAcquireStart implements [pgxpool.AcquireTracer].
func (s *statements) TraceAcquireStart(
	ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData,
) context.Context {
	ctx, _ = s.tracer.Begin(ctx, "wait for a connection")
	return ctx
}

// TraceAcquireEnd implements [pgxpool.AcquireTracer].
func (s *statements) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	span := s.tracer.Of(ctx)
	span.Fail(data.Err)
	span.End()
}

// tables are those that a SELECT may be about, the one that matters most first.
var tables = []string{
	"object_versions", "leases", "members", "alarms", "auth_", "holds", "purge", "settings", "clock",
}

// summary names a statement in few words: what it does, and to which table.
func summary(sql string) string {
	words := strings.SplitN(strings.TrimPrefix(sql, one), " ", 4)
	switch verb := words[0]; {
	case verb == "UPDATE" && len(words) > 1:
		return verb + " " + words[1]
	case (verb == "INSERT" || verb == "DELETE") && len(words) > 2: // INSERT INTO t, DELETE FROM t
		return verb + " " + words[2]
	case verb != "SELECT" && verb != "WITH":
		return verb
	}
	name := "SELECT"
	for _, table := range tables {
		if strings.Contains(sql, table) {
			name += " " + strings.TrimSuffix(table, "_")
			break
		}
	}
	switch {
	case strings.Contains(sql, "FOR UPDATE"):
		name += " FOR UPDATE"
	case name == "SELECT" && strings.Contains(sql, "set_config"):
		name += " set_config"
	}
	return name
}
