package store

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	expiryPeriod = 500 * time.Millisecond
	// expiryBatch is how many leases are revoked at the same time.
	expiryBatch = 512
	// expiryRetry is how long a lease that could not be revoked waits for the next attempt.
	expiryRetry = time.Second
	// standstill is the shortest gap between two readings of the time that counts as a standstill of the process.
	standstill = 4 * expiryPeriod
)

// lessor keeps the deadlines of leases in memory; the database holds their ids and TTLs. A restart gives every lease
// its full TTL again, and the first start after an import its remaining time at the source. Time in which the
// process stood still does not count, since nobody could renew then.
//
// A lease that has ended lives until it is revoked. A renewal in that time waits for the revocation, as in etcd: the
// store never says "not found" of a lease whose keys are still there.
type lessor struct {
	s     *Store
	awake func() time.Time // the machine's clock, which stands still with the process or shows that it did
	mu    sync.Mutex

	leases   map[int64]*lease
	order    leaseOrder
	lastRead time.Time     // when the time was last read
	frozen   time.Duration // how long the process has stood still so far
	due      chan struct{} // capacity 1: time to check for leases that have ended
	stats    LeaseStats
	late     complaint
}

type lease struct {
	id       int64
	ttl      time.Duration
	deadline time.Time // zero once its revocation has begun
	checkAt  time.Time // when to check whether it has ended: at its deadline, or later after a failure
	place    int       // in lessor.order, -1 if it is not there
	ending   *ending   // nil unless it is being revoked because it has ended
}

// ending is an attempt to revoke a lease that has ended. err is valid once done is closed.
type ending struct {
	done chan struct{}
	err  error
}

func newLessor(ctx context.Context, s *Store) (*lessor, error) {
	found, err := s.backend.Leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	l := &lessor{s: s, awake: time.Now, leases: make(map[int64]*lease, len(found)), due: make(chan struct{}, 1)}
	l.lastRead = l.awake()
	l.granted(found)
	return l, l.resume(ctx)
}

// resume gives imported leases their remaining time. It does so once: before another start, a client may have renewed
// them.
func (l *lessor) resume(ctx context.Context) error {
	remaining, err := l.s.backend.Remaining(ctx)
	if err != nil || len(remaining) == 0 {
		return err
	}
	imported, err := l.s.backend.Import(ctx)
	if err == nil {
		err = l.s.backend.SetRemaining(ctx, imported, nil)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for id, left := range remaining {
		if le := l.leases[id]; le != nil && !le.deadline.IsZero() {
			le.deadline = now.Add(min(left, le.ttl))
			l.order.move(le, le.deadline)
		}
	}
	return nil
}

// now returns the time that leases run on: the clock's, minus the time in which the process stood still. The first
// caller after a standstill detects it, whether that is a renewal or the ticker. Callers hold mu.
func (l *lessor) now() time.Time {
	awake := l.awake()
	if span := awake.Sub(l.lastRead); span > standstill {
		l.frozen += span
	}
	l.lastRead = awake
	return l.s.cfg.Now().Add(-l.frozen)
}

func (l *lessor) status(_ *evaluator, id int64) leaseStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch le := l.leases[id]; {
	case le == nil:
		return leaseNotFound
	case le.deadline.IsZero():
		return leaseEnding
	}
	return leaseLive
}

// expired holds until the batch that asks is done: only the goroutine of an ending asks, and nobody renews the lease
// while that runs.
func (l *lessor) expired(_ *evaluator, id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.leases[id]
	return le != nil && !le.deadline.After(l.now())
}

func (l *lessor) granted(granted []backend.Lease) {
	if len(granted) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, g := range granted {
		le := &lease{id: g.ID, ttl: g.TTL, deadline: now.Add(g.TTL), checkAt: now.Add(g.TTL)}
		if g.Ending {
			le.deadline, le.checkAt = time.Time{}, now
		}
		l.leases[g.ID] = le
		heap.Push(&l.order, le)
	}
}

// ending gives those who are revoking these leases some time to finish.
func (l *lessor) ending(ids []int64) {
	if len(ids) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, id := range ids {
		if le := l.leases[id]; le != nil {
			le.deadline = time.Time{}
			l.order.move(le, now.Add(expiryRetry))
		}
	}
}

func (l *lessor) revoked(ids []int64) {
	if len(ids) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if le := l.leases[id]; le != nil {
			delete(l.leases, id)
			heap.Remove(&l.order, le.place)
		}
	}
}

func (l *lessor) start() {
	l.s.background.start(l.run)
	l.s.background.start(l.revokeLoop)
}

// run reads the time often enough to notice that the process stood still, and wakes revokeLoop. The two are separate so
// that a slow database does not look like a standstill.
func (l *lessor) run() {
	tick := time.NewTicker(expiryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-l.s.ctx.Done():
			return
		case <-tick.C:
			l.mu.Lock()
			l.now()
			l.mu.Unlock()
			select {
			case l.due <- struct{}{}:
			default:
			}
		}
	}
}

func (l *lessor) revokeLoop() {
	for {
		select {
		case <-l.s.ctx.Done():
			return
		case <-l.due:
			l.revokeEnded()
		}
	}
}

// revokeEnded revokes the leases that have ended. After a failure it leaves the rest to the next pass.
func (l *lessor) revokeEnded() {
	for l.s.ctx.Err() == nil {
		endings := l.endSome()
		var failed []error
		for _, e := range endings {
			if <-e.done; e.err != nil {
				failed = append(failed, e.err)
			}
		}
		if len(endings) > 0 {
			l.late.about(l.s, failed)
		}
		if len(endings) < expiryBatch || len(failed) > 0 {
			return
		}
	}
}

// endSome begins to revoke leases that have ended.
func (l *lessor) endSome() (endings []*ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for len(l.order) > 0 && len(endings) < expiryBatch {
		le := l.order[0]
		if le.checkAt.After(now) {
			break
		}
		if le.deadline.After(now) {
			l.order.move(le, le.deadline)
			continue
		}
		l.order.move(le, now.Add(expiryRetry))
		endings = append(endings, l.end(le))
	}
	return endings
}

// end begins to revoke a lease that has ended, unless its revocation has begun. Callers hold mu.
func (l *lessor) end(le *lease) *ending {
	if le.ending == nil {
		e := &ending{done: make(chan struct{})}
		if !l.s.background.start(func() { l.finish(le, e) }) {
			e.err = ErrClosed
			close(e.done)
			return e
		}
		le.ending = e
	}
	return le.ending
}

func (l *lessor) finish(le *lease, e *ending) {
	_, err := l.s.revoke(l.s.ctx, revokeOperation{id: le.id, expired: true})
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.stats.Expired++
	case errors.Is(err, ErrLeaseNotFound), errors.Is(err, errNotEnded): // already revoked, or renewed
		err = nil
	case l.s.ctx.Err() != nil:
		err = ErrClosed
	}
	le.ending, e.err = nil, err
	close(e.done)
}

// renew waits for the revocation of a lease that has ended. It renews a lease whose revocation was attempted too early.
func (l *lessor) renew(ctx context.Context, id int64) (time.Duration, error) {
	for {
		ttl, e, err := l.renewOnce(id)
		if e == nil {
			return ttl, err
		}
		select {
		case <-e.done:
			if e.err != nil {
				return 0, e.err
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (l *lessor) renewAll(ctx context.Context, ids []int64, answer func(i int, r Renewal) error) error {
	for i, id := range ids {
		r := Renewal{Revision: l.s.Revision()}
		r.TTL, r.Err = l.s.LeaseRenew(ctx, id)
		if err := answer(i, r); err != nil {
			return err
		}
	}
	return nil
}

// renewOnce returns the ending to wait for if the lease has ended.
func (l *lessor) renewOnce(id int64) (time.Duration, *ending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.leases[id]
	if le == nil {
		return 0, nil, ErrLeaseNotFound
	}
	now := l.now()
	if le.ending != nil || !le.deadline.After(now) {
		return 0, l.end(le), nil
	}
	le.deadline = now.Add(le.ttl)
	l.order.move(le, le.deadline)
	l.stats.Renewed++
	return le.ttl, nil, nil
}

func (l *lessor) state(_ context.Context, id int64) (*Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.leases[id]
	if le == nil {
		return nil, ErrLeaseNotFound
	}
	return le.state(l.now()), nil
}

func (l *lessor) some(_ context.Context, ids []int64) (found []Lease, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, id := range ids {
		if le := l.leases[id]; le != nil {
			found = append(found, *le.state(now))
		}
	}
	return found, nil
}

func (l *lessor) all(context.Context) ([]Lease, error) {
	l.mu.Lock()
	out := make([]Lease, 0, len(l.leases))
	now := l.now()
	for _, le := range l.leases {
		out = append(out, *le.state(now))
	}
	l.mu.Unlock()
	byRemaining(out)
	return out, nil
}

func (l *lessor) counted() LeaseStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

func (l *lease) state(now time.Time) *Lease {
	return &Lease{ID: l.id, Granted: l.ttl, Remaining: max(0, l.deadline.Sub(now))}
}
