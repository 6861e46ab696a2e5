package backend

import "context"

type urgentKey struct{}

// Urgent marks what is asked by someone who holds the clock, or keeps someone waiting who does: all other writers wait
// for the answer, so it does not wait for reads.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// IsUrgent says whether ctx was made by [Urgent].
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }
