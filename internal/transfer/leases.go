package transfer

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
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
func setRemaining(ctx context.Context, b backend.Backend, found map[int64]time.Duration) error {
	leases, err := b.Leases(ctx)
	if err != nil {
		return err
	}
	remaining := make(map[int64]time.Duration, len(leases))
	for _, l := range leases {
		left, ok := found[l.ID]
		if !ok {
			left = l.TTL
		}
		remaining[l.ID] = min(max(left+time.Second-1, 0).Truncate(time.Second), l.TTL)
	}
	return b.SetRemaining(ctx, remaining)
}
