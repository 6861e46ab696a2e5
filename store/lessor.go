package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	minTTL       = 2 // seconds, as etcd's
	maxTTL       = 9_000_000_000
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

func (l *lessor) exists(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[id] != nil
}

// expire says whether the lease is past its deadline, and if so lets nobody renew it any more.
func (l *lessor) expire(id int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.leases[id]
	if le == nil || le.deadline.After(l.s.cfg.Now()) {
		return false
	}
	le.expiring = true
	return true
}

func (l *lessor) grant(granted []backend.Lease) {
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

func (l *lessor) revoke(ids []int64) {
	if len(ids) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.leases, id)
	}
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

// LeaseGrant grants a lease of ttl seconds (at least 2); id 0 lets the store choose one. Errors: [ErrLeaseTTL],
// [ErrLeaseExists], [ErrQuota], those of the sequencer.
func (s *Store) LeaseGrant(ctx context.Context, id, ttl int64) (*Lease, error) {
	if ttl > maxTTL {
		return nil, ErrLeaseTTL
	}
	ttl = max(ttl, minTTL)
	chosen := id != 0
	for {
		if !chosen {
			id = rand.Int64N(1<<62) + 1
		}
		d := time.Duration(ttl) * time.Second
		_, err := s.seq.do(ctx, &grantOperation{id: id, ttl: d})
		switch {
		case err == nil:
			return &Lease{ID: id, Granted: d, Remaining: d}, nil
		case chosen || !errors.Is(err, ErrLeaseExists):
			return nil, err
		}
	}
}

// LeaseRevoke revokes a lease and deletes its keys. Errors: [ErrLeaseNotFound], [ErrTxnTooLarge], those of the sequencer.
func (s *Store) LeaseRevoke(ctx context.Context, id int64) error {
	_, err := s.seq.do(ctx, &revokeOperation{id: id})
	return err
}

// LeaseRenew gives a lease its full TTL again and returns it in seconds. Errors: [ErrLeaseNotFound].
func (s *Store) LeaseRenew(_ context.Context, id int64) (int64, error) {
	l := s.lessor
	l.mu.Lock()
	defer l.mu.Unlock()
	le := l.leases[id]
	now := s.cfg.Now()
	if le == nil || le.expiring || !le.deadline.After(now) {
		return 0, ErrLeaseNotFound
	}
	le.deadline = now.Add(le.ttl)
	l.stats.Renewed++
	return int64(le.ttl / time.Second), nil
}

// LeaseTimeToLive describes a lease and, if wanted, its keys in order. Errors: [ErrLeaseNotFound].
func (s *Store) LeaseTimeToLive(ctx context.Context, id int64, keys bool) (*Lease, [][]byte, error) {
	l := s.lessor
	l.mu.Lock()
	le := l.leases[id]
	var out *Lease
	if le != nil {
		out = &Lease{ID: id, Granted: le.ttl, Remaining: max(0, le.deadline.Sub(s.cfg.Now()))}
	}
	l.mu.Unlock()
	if out == nil {
		return nil, nil, ErrLeaseNotFound
	}
	if !keys {
		return out, nil, nil
	}
	op := &leaseKeysOperation{id: id}
	if _, err := s.seq.do(ctx, op); err != nil {
		return nil, nil, err
	}
	attached := make([][]byte, len(op.keys))
	for i, k := range op.keys {
		attached[i] = []byte(k)
	}
	return out, attached, nil
}

// leaseKeysOperation lists the keys of a lease.
type leaseKeysOperation struct {
	id   int64
	keys []string
}

func (o *leaseKeysOperation) size() int64            { return 64 }
func (o *leaseKeysOperation) needs(n *backend.Needs) { n.LeaseKeys = append(n.LeaseKeys, o.id) }
func (o *leaseKeysOperation) evaluate(e *evaluator) error {
	o.keys = e.leaseKeys(o.id)
	return nil
}

// LeaseStats counts what became of leases since the start, for metrics.
type LeaseStats struct {
	Renewed, Expired uint64
}

// LeaseStats counts renewals and the leases that ended because nobody renewed them.
func (s *Store) LeaseStats() LeaseStats {
	s.lessor.mu.Lock()
	defer s.lessor.mu.Unlock()
	return s.lessor.stats
}

// Leases returns the ids of all leases, those that end first first.
func (s *Store) Leases(context.Context) ([]int64, error) {
	l := s.lessor
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]int64, 0, len(l.leases))
	for id := range l.leases {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int64) int {
		return l.leases[a].deadline.Compare(l.leases[b].deadline)
	})
	return ids, nil
}
