package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	expiryPeriod = 500 * time.Millisecond
	expiryBatch  = 64 // leases revoked at the same time
)

// lessor keeps the leases' deadlines in memory; the database holds their ids and TTLs. A restart gives every lease its full
// TTL again, and so does a span in which the process stood still, since nobody could renew.
type lessor struct {
	s  *Store
	mu sync.Mutex

	leases map[int64]*lease
	due    chan struct{} // capacity 1: time to look for expired leases
	stats  LeaseStats
}

type lease struct {
	ttl      time.Duration
	deadline time.Time
	expiring bool // a batch under way revokes it
}

func newLessor(ctx context.Context, s *Store) (*lessor, error) {
	found, err := s.backend.Leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	l := &lessor{s: s, leases: make(map[int64]*lease, len(found)), due: make(chan struct{}, 1)}
	now := s.cfg.Now()
	for _, f := range found {
		l.leases[f.ID] = &lease{ttl: f.TTL, deadline: now.Add(f.TTL)}
	}
	return l, nil
}

func (l *lessor) exists(_ *evaluator, id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[id] != nil
}

// expired says whether the lease is past its deadline, and if so lets nobody renew it any more.
func (l *lessor) expired(_ *evaluator, id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.leases[id]
	if le == nil || le.deadline.After(l.s.cfg.Now()) {
		return false
	}
	le.expiring = true
	return true
}

func (l *lessor) granted(granted []backend.Lease) {
	if len(granted) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.s.cfg.Now()
	for _, g := range granted {
		l.leases[g.ID] = &lease{ttl: g.TTL, deadline: now.Add(g.TTL)}
	}
}

func (l *lessor) revoked(ids []int64) {
	if len(ids) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.leases, id)
	}
}

func (l *lessor) start() {
	l.s.wg.Go(l.run)
	l.s.wg.Go(l.revokeLoop)
}

// run wakes revokeLoop, and looks out for spans in which the process stood still; a slow database must not look like one.
func (l *lessor) run() {
	tick := time.NewTicker(expiryPeriod)
	defer tick.Stop()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-l.s.ctx.Done():
			return
		case <-tick.C:
			if stood := time.Since(last); stood > 4*expiryPeriod {
				l.extend(stood)
			}
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
			l.revokeExpired(l.s.cfg.Now())
		}
	}
}

// extend moves every deadline by a span in which nobody could renew.
func (l *lessor) extend(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, le := range l.leases {
		le.deadline = le.deadline.Add(d)
	}
}

func (l *lessor) revokeExpired(now time.Time) {
	var ids []int64
	l.mu.Lock()
	for id, le := range l.leases {
		if !le.deadline.After(now) {
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	slices.Sort(ids)
	for part := range slices.Chunk(ids, expiryBatch) {
		var wg sync.WaitGroup
		for _, id := range part {
			wg.Go(func() { l.revokeOne(id) })
		}
		wg.Wait()
	}
}

func (l *lessor) revokeOne(id int64) {
	_, err := l.s.seq.do(l.s.ctx, &revokeOperation{id: id, expired: true})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stats.Expired++
		return
	}
	if errors.Is(err, ErrLeaseNotFound) || errors.Is(err, ErrClosed) || l.s.ctx.Err() != nil {
		return
	}
	if !errors.Is(err, ErrCorrupt) { // the alarm speaks for itself, and for every lease at each look
		l.s.cfg.Logger.Warn("expired lease not revoked yet", "lease", id, "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if le := l.leases[id]; le != nil {
		le.expiring = false
	}
}

func (l *lessor) renew(_ context.Context, id int64) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.leases[id]
	now := l.s.cfg.Now()
	if le == nil || le.expiring || !le.deadline.After(now) {
		return 0, ErrLeaseNotFound
	}
	le.deadline = now.Add(le.ttl)
	l.stats.Renewed++
	return le.ttl, nil
}

func (l *lessor) state(_ context.Context, id int64) (*Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.leases[id]
	if le == nil {
		return nil, ErrLeaseNotFound
	}
	return le.state(id, l.s.cfg.Now()), nil
}

func (l *lessor) all(context.Context) ([]Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Lease, 0, len(l.leases))
	now := l.s.cfg.Now()
	for id, le := range l.leases {
		out = append(out, *le.state(id, now))
	}
	return out, nil
}

func (l *lessor) counted() LeaseStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

func (l *lease) state(id int64, now time.Time) *Lease {
	return &Lease{ID: id, Granted: l.ttl, Remaining: max(0, l.deadline.Sub(now))}
}
