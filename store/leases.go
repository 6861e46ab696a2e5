package store

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	minTTL = 2 // seconds, as etcd's
	maxTTL = 9_000_000_000
)

// leaseKeeper keeps the time of leases: in memory when this process is the only one, else in the database.
type leaseKeeper interface {
	start()
	// exists and expired tell of a lease as the batch of e found it; one that has expired is not renewed any more.
	exists(e *evaluator, id int64) bool
	expired(e *evaluator, id int64) bool
	// granted and revoked hear what a batch has committed.
	granted(leases []backend.Lease)
	revoked(ids []int64)
	// renew gives a lease its full TTL again. Errors: [ErrLeaseNotFound].
	renew(ctx context.Context, id int64) (ttl time.Duration, err error)
	// state describes a lease. Errors: [ErrLeaseNotFound].
	state(ctx context.Context, id int64) (*Lease, error)
	all(ctx context.Context) ([]Lease, error)
	counted() LeaseStats
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

// LeaseRenew gives a lease its full TTL again and returns it in seconds. Errors: [ErrLeaseNotFound], those of the backend.
func (s *Store) LeaseRenew(ctx context.Context, id int64) (int64, error) {
	ttl, err := s.lessor.renew(ctx, id)
	return int64(ttl / time.Second), err
}

// LeaseTimeToLive describes a lease and, if wanted, its keys in order. Errors: [ErrLeaseNotFound], those of the backend.
func (s *Store) LeaseTimeToLive(ctx context.Context, id int64, keys bool) (*Lease, [][]byte, error) {
	out, err := s.lessor.state(ctx, id)
	if err != nil || !keys {
		return out, nil, err
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
func (s *Store) LeaseStats() LeaseStats { return s.lessor.counted() }

// Leases returns the ids of all leases, those that end first first. Errors: those of the backend.
func (s *Store) Leases(ctx context.Context) ([]int64, error) {
	all, err := s.lessor.all(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Lease) int { return cmp.Compare(a.Remaining, b.Remaining) })
	ids := make([]int64, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids, nil
}
