package backend

import "context"

type urgentKey struct{}

// Urgent marks requests from a caller that holds the clock, or that a holder of the clock waits for. All other writers
// wait for the answer, so such a request does not wait for reads.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// IsUrgent reports whether ctx was derived from a context made by [Urgent].
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }
