package store

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
)

const (
	// renewalLimit is how many leases one statement renews at most. It bounds the time that the statement takes, and
	// with it how long the leases stay locked.
	renewalLimit = 5000
	// renewalFresh is how old the result of a renewal may be when it becomes an answer. From the answer on, the client
	// relies on the full TTL.
	renewalFresh = 500 * time.Millisecond
)

// renewOnce renews a lease with a statement that begins after the call. Errors: [ErrLeaseNotFound] if the lease does
// not exist or has ended, [ErrClosed], ctx's, those of the backend.
func (l *sharedLessor) renewOnce(ctx context.Context, id int64) (time.Duration, error) {
	renewed, err := l.renewals.get(ctx, id, 0)
	switch {
	case err != nil:
		return 0, err
	case renewed.TTL == 0:
		return 0, ErrLeaseNotFound
	}
	l.renewed.Add(1)
	return renewed.TTL, nil
}

// renewNow renews leases with one statement. In the result, a lease that does not exist has no TTL.
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

// renewed is a renewal in a group. It begins as a stale one.
type renewed struct {
	Renewal
	at   time.Time     // when it was known
	slow chan struct{} // closed once the rest is known; nil if nobody sets it
}

// wait waits until the renewal is known.
func (r *renewed) wait() {
	if r.slow != nil {
		<-r.slow
	}
}

func (r *renewed) known() bool {
	select {
	case <-r.slow:
		return true
	default:
		return r.slow == nil
	}
}

// stale reports whether too much of the TTL has passed for an answer.
func (r *renewed) stale() bool { return r.Err == nil && time.Since(r.at) > renewalFresh }

func (l *sharedLessor) renewAll(ctx context.Context, ids []int64, answer func(i int, r Renewal) error) (err error) {
	group := make([]renewed, len(ids))
	for i := range group {
		r := &group[i]
		if err != nil && (!r.known() || r.at.IsZero()) {
			continue
		}
		for r.wait(); err == nil && r.stale(); r.wait() {
			l.renewStale(ctx, ids[i:], group[i:])
		}
		if failed := answer(i, r.Renewal); err == nil {
			err = failed
		}
	}
	return err
}

// renewStale renews the known and stale leases of a group with one statement, up to the first one that the caller may
// not renew. It gives those that the statement does not find to renew, each in a goroutine.
func (l *sharedLessor) renewStale(ctx context.Context, ids []int64, group []renewed) {
	var stale []int
	var leases []int64
	for i := range group {
		if r := &group[i]; r.known() && r.stale() {
			stale, leases = append(stale, i), append(leases, ids[i])
		}
	}
	s := l.replica.s
	revision := s.Revision()
	n, refused := s.mayUseFirst(ctx, leases, (*auth.State).CanWrite)
	if refused != nil {
		group[stale[n]] = renewed{Renewal: Renewal{Revision: revision, Err: refused}, at: time.Now()}
		stale, leases = stale[:n], leases[:n]
	}
	found, err := l.renewals.getAll(ctx, leases)
	now := time.Now()
	for n, i := range stale {
		r := &group[i]
		*r = renewed{Renewal: Renewal{Revision: revision, Err: err}, at: now}
		switch {
		case err != nil:
		case found[n].TTL > 0:
			r.TTL = seconds(found[n].TTL)
			l.renewed.Add(1)
		default:
			slow := make(chan struct{})
			r.slow = slow
			if !s.background.start(func() {
				var ttl time.Duration
				ttl, r.Err = l.renew(ctx, leases[n])
				r.TTL, r.at = seconds(ttl), time.Now()
				close(slow)
			}) {
				r.slow, r.Err = nil, ErrClosed
			}
		}
	}
}

func seconds(ttl time.Duration) int64 { return int64(ttl / time.Second) }
