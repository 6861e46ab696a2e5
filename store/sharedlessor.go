package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// sharedLessor leaves the time of leases to the database that several replicas share: to its clock and its rows. Any replica
// renews any lease; the one that has the maintenance lease looks for those that have ended, and the batch that revokes one looks
// at it again and keeps it from being renewed meanwhile. So a lease ends once, and never after a renewal that was answered.
type sharedLessor struct {
	f       *follower
	ended   atomic.Uint64
	kept    atomic.Uint64
	looking atomic.Bool // for leases that have ended

	mu   sync.Mutex
	busy bool          // a statement renews
	next *renewalGroup // gathers, nil when nobody waits
}

// renewalGroup is what one statement renews for several callers: ttls and err count once done is closed.
type renewalGroup struct {
	ids  []int64
	done chan struct{}
	ttls map[int64]time.Duration
	err  error
}

const (
	// expiryLimit is how many leases one look for those that have ended finds at most.
	expiryLimit = 1000
	// expiryFresh is how old the finding that a lease has ended may be when it is acted upon: the next one comes after the
	// heartbeat that notices whether nobody could renew meanwhile.
	expiryFresh = 2 * time.Second
)

func (l *sharedLessor) start() {} // the heartbeat calls expire

func (l *sharedLessor) exists(e *evaluator, id int64) bool {
	_, ok := leaseState(e.states, id)
	return ok
}

func (l *sharedLessor) expired(e *evaluator, id int64) bool {
	s, ok := leaseState(e.states, id)
	return ok && s.Remaining <= 0
}

func leaseState(states []backend.LeaseState, id int64) (backend.LeaseState, bool) {
	for _, s := range states {
		if s.ID == id {
			return s, true
		}
	}
	return backend.LeaseState{}, false
}

func (l *sharedLessor) granted([]backend.Lease) {}
func (l *sharedLessor) revoked([]int64)         {}

// renewTries is how often a renewal finds a lease that has ended, and that neither can be revoked nor gets its time again.
const renewTries = 3

// renew does not call a lease that has ended lost while it is still there: it may have ended because nobody could renew, which a
// heartbeat finds out and makes good. If so not, the lease is revoked before its client is told that it is not there.
func (l *sharedLessor) renew(ctx context.Context, id int64) (time.Duration, error) {
	for range renewTries {
		began := time.Now()
		ttl, err := l.renewOnce(ctx, id)
		if !errors.Is(err, ErrLeaseNotFound) {
			return ttl, err
		}
		if _, stateErr := l.state(ctx, id); stateErr != nil {
			return 0, stateErr
		}
		if err := l.f.beatSince(ctx, began); err != nil {
			return 0, err
		}
		if ttl, err = l.renewOnce(ctx, id); !errors.Is(err, ErrLeaseNotFound) {
			return ttl, err
		}
		_, err = l.f.s.seq.do(ctx, &revokeOperation{id: id, expired: true, found: time.Now()})
		if err != nil && !errors.Is(err, ErrLeaseNotFound) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: the lease has ended, and is not revoked yet", ErrUnavailable)
}

// renewOnce gathers the renewals that come while a statement is under way into the next one.
func (l *sharedLessor) renewOnce(ctx context.Context, id int64) (time.Duration, error) {
	l.mu.Lock()
	if l.next == nil {
		l.next = &renewalGroup{done: make(chan struct{})}
	}
	g := l.next
	g.ids = append(g.ids, id)
	if !l.busy {
		l.busy = true
		l.f.s.wg.Go(l.renewGroups)
	}
	l.mu.Unlock()
	select {
	case <-g.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if g.err != nil {
		return 0, g.err
	}
	ttl, ok := g.ttls[id]
	if !ok {
		return 0, ErrLeaseNotFound
	}
	l.kept.Add(1)
	return ttl, nil
}

func (l *sharedLessor) renewGroups() {
	for {
		l.mu.Lock()
		g := l.next
		l.next, l.busy = nil, g != nil
		l.mu.Unlock()
		if g == nil {
			return
		}
		var renewed []backend.Lease
		renewed, g.err = l.f.b.RenewLeases(l.f.s.ctx, g.ids)
		g.ttls = make(map[int64]time.Duration, len(renewed))
		for _, r := range renewed {
			g.ttls[r.ID] = r.TTL
		}
		close(g.done)
	}
}

func (l *sharedLessor) state(ctx context.Context, id int64) (*Lease, error) {
	states, err := l.f.b.LeaseStates(ctx, []int64{id})
	if err != nil {
		return nil, err
	}
	if len(states) == 0 {
		return nil, ErrLeaseNotFound
	}
	return described(states[0]), nil
}

func (l *sharedLessor) all(ctx context.Context) ([]Lease, error) {
	states, err := l.f.b.LeaseStates(ctx, nil)
	if err != nil {
		return nil, err
	}
	out := make([]Lease, len(states))
	for i, s := range states {
		out[i] = *described(s)
	}
	return out, nil
}

func described(s backend.LeaseState) *Lease {
	return &Lease{ID: s.ID, Granted: s.TTL, Remaining: max(0, s.Remaining)}
}

func (l *sharedLessor) counted() LeaseStats {
	return LeaseStats{Renewed: l.kept.Load(), Expired: l.ended.Load()}
}

// look begins to revoke the leases that have ended, unless it is at it already. The heartbeat before it, which does not wait for
// it, has seen that they could be renewed.
func (l *sharedLessor) look(ctx context.Context) {
	if !l.looking.CompareAndSwap(false, true) {
		return
	}
	l.f.s.wg.Go(func() {
		defer l.looking.Store(false)
		if err := l.expire(ctx); err != nil && ctx.Err() == nil {
			l.f.s.cfg.Logger.Warn("leases that have ended are not revoked yet", "error", err)
		}
	})
}

func (l *sharedLessor) expire(ctx context.Context) error {
	ids, err := l.f.b.ExpiredLeases(ctx, expiryLimit)
	if err != nil || len(ids) == 0 {
		return err
	}
	found := time.Now()
	var mu sync.Mutex
	var failed []error
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			_, err := l.f.s.seq.do(ctx, &revokeOperation{id: id, expired: true, found: found})
			switch {
			case err == nil:
				l.ended.Add(1)
			case errors.Is(err, ErrLeaseNotFound), errors.Is(err, ErrClosed), errors.Is(err, ErrCorrupt):
			default:
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		return failed[0]
	}
	return nil
}
