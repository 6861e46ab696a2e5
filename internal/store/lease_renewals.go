package store

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// renewalLimit is how many leases one statement renews at most. It bounds the time that the statement takes, and with
// it how long the leases stay locked.
const renewalLimit = 5000

// renewOnce renews a lease with a statement that begins after the call. Errors: [ErrLeaseNotFound] if the lease does
// not exist or has ended, [ErrClosed], ctx's, those of the backend.
func (l *sharedLessor) renewOnce(ctx context.Context, id int64) (time.Duration, error) {
	renewed, err := l.renewals.get(ctx, id, 0)
	switch {
	case err != nil:
		return 0, err
	case renewed.ID != id:
		return 0, ErrLeaseNotFound
	}
	l.renewed.Add(1)
	return renewed.TTL, nil
}

// renewNow renews leases with one statement. In the result, a lease that does not exist has no id.
func (l *sharedLessor) renewNow(ids []int64) ([]backend.Lease, error) {
	renewed, err := l.replica.b.RenewLeases(l.replica.s.ctx, ids)
	if err != nil {
		if l.replica.s.ctx.Err() != nil {
			return nil, ErrClosed
		}
		return nil, err
	}
	place := make(map[int64]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	out := make([]backend.Lease, len(ids))
	for _, lease := range renewed {
		out[place[lease.ID]] = lease
	}
	return out, nil
}
