package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	minTTL = 2 // seconds, as in etcd
	maxTTL = 9_000_000_000
)

// leaseKeeper keeps the time of leases: in memory when this process is the only one, otherwise in the database.
type leaseKeeper interface {
	start()
	// status and expired describe a lease as e's batch found it. A lease that has expired can no longer be renewed.
	status(e *evaluator, id int64) leaseStatus
	expired(e *evaluator, id int64) bool
	// The store calls granted, ending and revoked with what a batch has committed.
	granted(leases []backend.Lease)
	ending(ids []int64)
	revoked(ids []int64)
	// renew gives a lease its full TTL again and returns the TTL. Errors: [ErrLeaseNotFound].
	renew(ctx context.Context, id int64) (ttl time.Duration, err error)
	// renewAll renews leases as [Store.LeaseRenewAll] does.
	renewAll(ctx context.Context, ids []int64, answer func(i int, r Renewal) error) error
	// state describes a lease. Errors: [ErrLeaseNotFound].
	state(ctx context.Context, id int64) (*Lease, error)
	// some returns those of the leases that exist.
	some(ctx context.Context, ids []int64) ([]Lease, error)
	// all returns all leases, ordered by the time they have left, shortest first. Callers may share the slice and must
	// not change it.
	all(ctx context.Context) ([]Lease, error)
	counted() LeaseStats
}

// LeaseGrant grants a lease of ttl seconds (at least 2). If id is 0, the store chooses one. Errors: [ErrLeaseTTL],
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
		rev, err := s.seq.do(ctx, &grantOperation{id: id, ttl: d})
		switch {
		case err == nil:
			return &Lease{ID: id, Granted: d, Remaining: d, Revision: rev}, nil
		case chosen || !errors.Is(err, ErrLeaseExists):
			return nil, err
		}
	}
}

// LeaseRevoke revokes a lease, deletes its keys, and returns the revision of that. A lease with more keys than one
// transaction may change ([Config.TxnRows]) is revoked in parts, each with its own revision. If LeaseRevoke returns
// early, for example with ctx's error, the store deletes the rest later. Errors: [ErrLeaseNotFound], those of the
// sequencer.
func (s *Store) LeaseRevoke(ctx context.Context, id int64) (revision int64, err error) {
	return s.revoke(ctx, revokeOperation{id: id})
}

// LeaseRenew gives a lease its full TTL again and returns it in seconds. Errors: [ErrLeaseNotFound], those of the
// backend.
func (s *Store) LeaseRenew(ctx context.Context, id int64) (int64, error) {
	if err := s.mayUse(ctx, []int64{id}, (*auth.State).CanWrite); err != nil {
		return 0, err
	}
	ttl, err := s.lessor.renew(ctx, id)
	return seconds(ttl), err
}

// Renewal is the result of a [Store.LeaseRenew].
type Renewal struct {
	// Revision is the store's before the renewal: a client that sees one at a revision may rely on the lease there.
	Revision int64
	TTL      int64 // in seconds
	Err      error
}

// LeaseRenewAll is LeaseRenew for several leases. It calls answer with the result of each, in their order, as soon as
// it is known. A renewal that has had to wait for those before it is repeated. After answer has returned an error,
// LeaseRenewAll calls it only for the leases that are renewed by then, and returns the first error.
func (s *Store) LeaseRenewAll(ctx context.Context, ids []int64, answer func(i int, r Renewal) error) error {
	return s.lessor.renewAll(ctx, ids, answer)
}

// LeaseTimeToLive describes a lease and, if keys is set, returns its keys in order, at the revision in the description.
// They must not change.
// Errors: [ErrLeaseNotFound], which then holds at [Store.Revision], those of the backend.
func (s *Store) LeaseTimeToLive(ctx context.Context, id int64, keys bool) (*Lease, [][]byte, error) {
	if err := s.CheckUser(ctx); err != nil {
		return nil, nil, err
	}
	rev := s.Revision()
	var attached [][]byte
	if keys {
		var err error
		if attached, rev, err = s.leaseKeys(ctx, id); err == nil {
			err = s.mayUseKeys(ctx, attached, (*auth.State).CanRead)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	out, err := s.lessor.state(ctx, id) // a lease that exists now existed at the revision of its keys
	if errors.Is(err, ErrLeaseNotFound) {
		if err := s.confirm(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err != nil {
		return nil, nil, err
	}
	out.Revision = rev
	return out, attached, nil
}

// leaseKeys returns the keys of a lease in order, and the revision at which it has them.
func (s *Store) leaseKeys(ctx context.Context, id int64) ([][]byte, int64, error) {
	if err := s.confirm(ctx); err != nil {
		return nil, 0, err
	}
	return s.knownLeaseKeys(ctx, id)
}

// knownLeaseKeys is leaseKeys for what this store knows.
func (s *Store) knownLeaseKeys(ctx context.Context, id int64) ([][]byte, int64, error) {
	keys, rev, ok := s.index.LeaseKeys(id)
	if !ok {
		op := &leaseKeysOperation{id: id}
		var err error
		if rev, err = s.seq.do(ctx, op); err != nil {
			return nil, 0, err
		}
		keys = op.keys
	}
	slices.Sort(keys)
	attached := make([][]byte, len(keys))
	for i, k := range keys {
		attached[i] = index.KeyBytes(k)
	}
	return attached, rev, nil
}

// leaseKeysOperation lists the keys of a lease while the index is incomplete.
type leaseKeysOperation struct {
	id   int64
	keys []string
}

func (o *leaseKeysOperation) size() int64            { return 64 }
func (o *leaseKeysOperation) needs(n *backend.Needs) { n.LeaseKeys = append(n.LeaseKeys, o.id) }
func (o *leaseKeysOperation) evaluate(e *evaluator) error {
	limit := e.s.cfg.TxnRows
	if o.keys = e.leaseKeys(o.id, limit+1); len(o.keys) > limit || e.attached.isPart(o.id) {
		return fmt.Errorf("%w: a lease with more than %d keys is listed once the index is loaded", ErrTxnTooLarge,
			limit)
	}
	return nil
}

// LeaseStats counts renewals and expired leases since the start, for metrics.
type LeaseStats struct {
	Renewed, Expired uint64
}

// LeaseStats returns the numbers of renewals and of leases that ended because nobody renewed them.
func (s *Store) LeaseStats() LeaseStats { return s.lessor.counted() }

// Leases returns all leases, ordered by the time they have left, shortest first. Callers share the slice and must not
// change it. When it returns, a lease that is missing because it was revoked is gone at [Store.Revision], too. Errors:
// [auth.ErrPermissionDenied] for a caller who may not read all keys of all leases, those of the backend.
func (s *Store) Leases(ctx context.Context) ([]Lease, error) {
	all, err := s.lessor.all(ctx)
	if err == nil {
		err = s.confirm(ctx)
	}
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	if err := s.mayUse(ctx, ids, (*auth.State).CanRead); err != nil {
		return nil, err
	}
	return all, nil
}

// CountLeaseKeys returns how many keys each of the leases has, for callers who may list the leases. While a large batch
// is being applied, it may count keys that the batch detaches. Errors: [ErrTxnTooLarge], those of the sequencer.
func (s *Store) CountLeaseKeys(ctx context.Context, leases []Lease) ([]int, error) {
	counts := make([]int, len(leases))
	for i := range leases {
		n, complete := s.index.CountLeaseKeys(leases[i].ID)
		if !complete {
			keys, _, err := s.knownLeaseKeys(ctx, leases[i].ID)
			if err != nil {
				return nil, err
			}
			n = len(keys)
		}
		counts[i] = n
	}
	return counts, nil
}

// byRemaining sorts leases by the time they have left, shortest first.
func byRemaining(all []Lease) {
	slices.SortFunc(all, func(a, b Lease) int { return cmp.Compare(a.Remaining, b.Remaining) })
}

// complaint logs that leases have ended and cannot be revoked, once for all of them.
type complaint struct{ outage loglimit.Outage }

// about takes the result of one pass: the errors that kept leases from being revoked, none if all were revoked.
func (c *complaint) about(s *Store, failed []error) {
	switch {
	case s.ctx.Err() != nil:
	case len(failed) == 0:
		if c.outage.Worked() {
			s.cfg.Logger.Info("leases that have ended are revoked again")
		}
	case errors.Is(failed[0], ErrCorrupt): // the CORRUPT alarm reports it
	case c.outage.Failed():
		s.cfg.Logger.Warn("leases that have ended cannot be revoked yet: they and their keys stay until the database "+
			"takes writes again",
			"leases", len(failed), "error", failed[0])
	}
}
