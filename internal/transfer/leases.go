package transfer

import (
	"context"
	"time"
)

// LeaseTimes is a [backend.Source] that knows the remaining time of its leases. An import asks at its end, so that the
// time it takes passes for the target's leases, too.
type LeaseTimes interface {
	// Remaining returns the remaining time of the leases now, 0 or less for those that have ended. A lease that is
	// missing has its full TTL. Errors: [backend.ErrSource].
	Remaining(ctx context.Context) (map[int64]time.Duration, error)
}

// setRemaining gives a target's leases their remaining time at the source, rounded up to whole seconds: none ends
// earlier than at the source.
func (l *loader) setRemaining(ctx context.Context, found map[int64]time.Duration) error {
	leases, err := l.b.Leases(ctx)
	if err != nil {
		return err
	}
	remaining := make(map[int64]time.Duration, len(leases))
	for _, lease := range leases {
		left, ok := found[lease.ID]
		if !ok {
			left = lease.TTL
		}
		remaining[lease.ID] = min(max(left+time.Second-1, 0).Truncate(time.Second), lease.TTL)
	}
	return l.b.SetRemaining(ctx, l.held, remaining)
}
