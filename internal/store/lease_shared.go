package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// sharedLessor leaves the time of leases to the database that several replicas share: to its clock and its rows. Any
// replica renews any lease. The replica that has the maintenance lease looks for leases that have ended. The batch that
// revokes one checks it again, and keeps it from being renewed in the meantime. So a lease ends once, and never after
// an acknowledged renewal.
type sharedLessor struct {
	replica  *replica
	ended    atomic.Uint64
	renewed  atomic.Uint64
	revoking atomic.Bool // true while revokeExpired runs
	late     complaint   // used only by the goroutine of revokeExpired
	renewals gatherer[int64, backend.Lease]
	lookups  gatherer[int64, Lease]
	lists    *gatherer[struct{}, []Lease] // lists all leases
}

func newSharedLessor(r *replica) *sharedLessor {
	l := &sharedLessor{replica: r}
	l.renewals = gatherer[int64, backend.Lease]{background: &r.s.background, limit: renewalLimit, ask: l.renewNow}
	l.lookups = gatherer[int64, Lease]{
		background: &r.s.background, limit: renewalLimit, patience: fetchPatience, overtaken: fetchOvertaken,
		ask: l.lookUp,
	}
	l.lists = together(&r.s.background, l.allNow)
	return l
}

const (
	// expiryLimit is how many ended leases one query finds at most: the query passes the index entries of all leases
	// revoked before it, and each pass costs a heartbeat.
	expiryLimit = 20_000
	// sharedExpiryBatch is how many of them are revoked at the same time. It bounds how long others wait for the clock.
	sharedExpiryBatch = 2000
	// expiryFresh is how old the finding that a lease has ended may be when the store acts on it. The next finding
	// comes after the heartbeat that would notice that nobody could renew in the meantime.
	expiryFresh = 2 * time.Second
)

func (l *sharedLessor) start() {} // the heartbeat calls revokeExpired

func (l *sharedLessor) status(e *evaluator, id int64) leaseStatus {
	switch s, ok := e.states[id]; {
	case !ok:
		return leaseNotFound
	case s.Ending:
		return leaseEnding
	}
	return leaseLive
}

func (l *sharedLessor) expired(e *evaluator, id int64) bool {
	s, ok := e.states[id]
	return ok && s.Remaining <= 0
}

func (l *sharedLessor) granted([]backend.Lease) {}
func (l *sharedLessor) ending([]int64)          {}
func (l *sharedLessor) revoked([]int64)         {}

// renewTries is how often a renewal may find that a lease has ended, but that it can neither be revoked nor given its
// full TTL again.
const renewTries = 3

// renew does not report a lease that has ended as lost while it still exists: it may have ended because nobody could
// renew, which a heartbeat detects and makes good. Otherwise the lease is revoked before its client learns that it does
// not exist.
func (l *sharedLessor) renew(ctx context.Context, id int64) (time.Duration, error) {
	for range renewTries {
		ttl, err := l.renewOnce(ctx, id)
		if !errors.Is(err, ErrLeaseNotFound) {
			return ttl, err
		}
		if _, stateErr := l.state(ctx, id); stateErr != nil {
			return 0, stateErr
		}
		if err := l.replica.beatSince(ctx, time.Now()); err != nil {
			return 0, err
		}
		asked := time.Now()
		if ttl, err = l.renewOnce(ctx, id); !errors.Is(err, ErrLeaseNotFound) {
			return ttl, err
		}
		_, err = l.replica.s.revoke(ctx, revokeOperation{id: id, expired: true, found: asked})
		if err != nil && !errors.Is(err, ErrLeaseNotFound) && !errors.Is(err, errNotEnded) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: the lease has ended, and is not revoked yet", ErrUnavailable)
}

// states reads leases as a linearizable read does.
func (l *sharedLessor) states(ctx context.Context, ids []int64) (states []backend.LeaseState, err error) {
	err = l.replica.current(ctx, func() (o backend.Origin, err error) {
		states, o, err = l.replica.b.LeaseStates(ctx, ids)
		return o, err
	})
	return states, err
}

func (l *sharedLessor) state(ctx context.Context, id int64) (*Lease, error) {
	found, err := l.lookups.get(ctx, id, 0)
	switch {
	case err != nil:
		return nil, err
	case found.Granted == 0:
		return nil, ErrLeaseNotFound
	}
	return &found, nil
}

// lookUp reads leases with one statement. In the result, a lease that does not exist has no TTL.
func (l *sharedLessor) lookUp(ids []int64) ([]Lease, error) {
	states, err := l.states(l.replica.s.ctx, ids)
	if err != nil {
		if l.replica.s.ctx.Err() != nil {
			return nil, ErrClosed
		}
		return nil, err
	}
	found := make(map[int64]backend.LeaseState, len(states))
	for _, s := range states {
		found[s.ID] = s
	}
	out := make([]Lease, len(ids))
	for i, id := range ids {
		if s, ok := found[id]; ok {
			out[i] = *described(s)
		}
	}
	return out, nil
}

func (l *sharedLessor) some(ctx context.Context, ids []int64) (found []Lease, err error) {
	states, err := l.states(ctx, ids)
	for _, s := range states {
		found = append(found, *described(s))
	}
	return found, err
}

func (l *sharedLessor) all(ctx context.Context) ([]Lease, error) {
	return l.lists.get(ctx, struct{}{}, 0)
}

func (l *sharedLessor) allNow() ([]Lease, error) {
	states, err := l.states(l.replica.s.ctx, nil)
	if err != nil {
		return nil, err
	}
	out := make([]Lease, len(states))
	for i, s := range states {
		out[i] = *described(s)
	}
	byRemaining(out)
	return out, nil
}

func described(s backend.LeaseState) *Lease {
	return &Lease{ID: s.ID, Granted: s.TTL, Remaining: max(0, s.Remaining)}
}

func (l *sharedLessor) counted() LeaseStats {
	return LeaseStats{Renewed: l.renewed.Load(), Expired: l.ended.Load()}
}

// revokeExpired begins to revoke the leases that have ended, unless it is doing so already. Heartbeats do not wait for
// it, and so keep showing that leases can be renewed.
func (l *sharedLessor) revokeExpired(ctx context.Context) {
	if !l.revoking.CompareAndSwap(false, true) {
		return
	}
	started := l.replica.s.background.start(func() {
		defer l.revoking.Store(false)
		if l.replica.members.extends() {
			if err := l.extend(ctx); err != nil {
				l.late.about(l.replica.s, []error{err})
				return
			}
		}
		for ctx.Err() == nil && l.replica.members.heartbeatIsFresh() {
			found, failed := l.expire(ctx)
			if found > 0 || len(failed) > 0 {
				l.late.about(l.replica.s, failed)
			}
			if found < expiryLimit || len(failed) > 0 {
				return
			}
		}
	})
	if !started {
		l.revoking.Store(false)
	}
}

// extend gives the full TTL again to the leases that an extension has not reached yet.
func (l *sharedLessor) extend(ctx context.Context) error {
	for l.replica.leads() {
		if done, err := l.replica.b.ExtendLeases(ctx); done || err != nil {
			return err
		}
	}
	return ctx.Err()
}

// expire revokes leases that have ended, and returns how many it found and why it could not revoke some.
//
// After a failover, the database may answer with a clock that is ahead. The heartbeat after the answer then finds that
// no replica was heard from since, and begins an extension. If another replica's heartbeat has extended the leases by
// then, the batch that revokes finds that out.
func (l *sharedLessor) expire(ctx context.Context) (n int, failed []error) {
	found := time.Now() // before the query: the answer may come long after the database evaluated it
	ids, err := l.replica.b.ExpiredLeases(ctx, expiryLimit)
	if err == nil && len(ids) > 0 {
		err = l.replica.beatSince(ctx, time.Now())
	}
	if err != nil {
		return 0, []error{err}
	}
	if l.replica.members.extends() {
		return 0, nil
	}
	for part := range slices.Chunk(ids, sharedExpiryBatch) {
		if failed = l.end(ctx, part, found); len(failed) > 0 || time.Since(found) > expiryFresh {
			break
		}
	}
	return len(ids), failed
}

// end revokes leases that were found to have ended, all at the same time.
func (l *sharedLessor) end(ctx context.Context, ids []int64, found time.Time) (failed []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			_, err := l.replica.s.revoke(ctx, revokeOperation{id: id, expired: true, found: found})
			switch {
			case err == nil:
				l.ended.Add(1)
			case errors.Is(err, ErrLeaseNotFound), errors.Is(err, errNotEnded), errors.Is(err, ErrClosed):
			default:
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed
}
