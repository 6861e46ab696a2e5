package backend

import "context"

// priority says how a read waits for connections. A read without one may take long if it reads a range, many rows or
// history. Together, such reads leave a connection to all others, if there is more than one.
type priority int

const (
	maintenance priority = iota + 1
	brief
	urgent
)

type priorityKey struct{}

// Maintenance marks long reads of the store's own, one or a few at a time. They do not wait for the reads of clients,
// which may be slow because this work is not finished. A backend with few connections for reads may treat them like
// those of clients.
func Maintenance(ctx context.Context) context.Context { return with(ctx, maintenance) }

// Brief marks reads of rows that callers ask for one by one. Reads of a single key or row need no mark.
func Brief(ctx context.Context) context.Context { return with(ctx, brief) }

// Urgent marks requests from a caller that holds the clock, or that a holder of the clock waits for. All other writers
// wait for the answer, so such a request does not wait for reads.
func Urgent(ctx context.Context) context.Context { return with(ctx, urgent) }

// with returns a context of at least that priority.
func with(ctx context.Context, p priority) context.Context {
	if priorityOf(ctx) >= p {
		return ctx
	}
	return context.WithValue(ctx, priorityKey{}, p)
}

func priorityOf(ctx context.Context) priority {
	p, _ := ctx.Value(priorityKey{}).(priority)
	return p
}

// IsMaintenance reports whether ctx was derived from a context made by [Maintenance], and not by [Brief] or [Urgent].
func IsMaintenance(ctx context.Context) bool { return priorityOf(ctx) == maintenance }

// IsBrief reports whether ctx was derived from a context made by [Brief], and not by [Urgent].
func IsBrief(ctx context.Context) bool { return priorityOf(ctx) == brief }

// IsUrgent reports whether ctx was derived from a context made by [Urgent].
func IsUrgent(ctx context.Context) bool { return priorityOf(ctx) == urgent }

// Priority returns ctx with the priority of the query.
func (q *RangeQuery) Priority(ctx context.Context) context.Context {
	if q.End == nil {
		return Brief(ctx)
	}
	return ctx
}

// RowsPriority returns ctx with the priority of a read of so many rows.
func RowsPriority(ctx context.Context, rows int) context.Context {
	if rows == 1 {
		return Brief(ctx)
	}
	return ctx
}
