package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// leaseStatus tells what a batch may do with a lease.
type leaseStatus int

const (
	leaseNotFound leaseStatus = iota
	leaseLive
	leaseEnding // its revocation has begun: it cannot be renewed and takes no keys
)

// grantOperation grants a lease.
type grantOperation struct {
	id  int64
	ttl time.Duration
}

func (o *grantOperation) size() int64          { return 64 }
func (o *grantOperation) needs(*backend.Needs) {}

func (o *grantOperation) leases(ids []int64) []int64 { return append(ids, o.id) }

func (o *grantOperation) evaluate(e *evaluator) error {
	if err := e.auth.Known(e.caller); err != nil {
		return err
	}
	if err := e.intact(); err != nil {
		return err
	}
	if err := e.checkQuota(o.size()); err != nil {
		return err
	}
	if e.leaseStatus(o.id) != leaseNotFound {
		return ErrLeaseExists
	}
	if _, changed := e.leases[o.id]; changed {
		e.split = true // revoked and granted again: effects have no order that could express this
	}
	e.setLease(o.id, leaseLive)
	e.effects.Granted = append(e.effects.Granted, backend.Lease{ID: o.id, TTL: o.ttl})
	return nil
}

// errNotEnded means that a lease cannot be revoked as expired: somebody has renewed it, or may have.
var errNotEnded = errors.New("the lease has not ended")

// revokeOperation revokes a lease and deletes its keys. If expired is set, it does so only if nobody has renewed the
// lease. If the lease has more keys than one transaction may change, it deletes that many and sets more; see
// [Store.revoke].
type revokeOperation struct {
	id      int64
	expired bool
	found   time.Time // when the database was asked whether it had ended; see expiryFresh
	begun   int64     // the epoch in which earlier parts were deleted, 0 for none
	more    bool
	epoch   int64 // in which this part was deleted
}

func (o *revokeOperation) size() int64            { return 64 }
func (o *revokeOperation) needs(n *backend.Needs) { n.LeaseKeys = append(n.LeaseKeys, o.id) }

func (o *revokeOperation) keysScanned(x *index.Index) int64 {
	n, _ := x.CountLeaseKeys(o.id)
	return int64(n)
}

func (o *revokeOperation) leases(ids []int64) []int64 { return append(ids, o.id) }

func (o *revokeOperation) evaluate(e *evaluator) error {
	o.more, o.epoch = false, e.epoch
	if err := e.auth.Known(e.caller); err != nil {
		return err
	}
	if err := e.intact(); err != nil {
		return err
	}
	if err := e.mayEnd(o.id); err != nil {
		return err
	}
	status := e.leaseStatus(o.id)
	switch {
	case status == leaseNotFound:
		return ErrLeaseNotFound
	case status == leaseEnding:
	case o.begun == e.epoch:
		return ErrLeaseNotFound // somebody else has deleted the rest, and this one was granted since
	case !o.found.IsZero() && time.Since(o.found) > expiryFresh, o.expired && !e.s.lessor.expired(e, o.id):
		return errNotEnded
	}
	limit := e.s.cfg.TxnRows
	keys := e.leaseKeys(o.id, limit+1)
	o.more = len(keys) > limit || e.attached.isPart(o.id)
	keys = keys[:min(len(keys), limit)]
	for _, key := range keys {
		it := e.live(key)
		e.write(Row{Key: it.Key, Deleted: true}, it)
	}
	switch {
	case !o.more:
		e.setLease(o.id, leaseNotFound)
		e.effects.Revoked = append(e.effects.Revoked, o.id)
	case status == leaseLive:
		e.setLease(o.id, leaseEnding)
		e.effects.Ending = append(e.effects.Ending, o.id)
	}
	return nil
}

// revoke runs o until nothing is left of the lease, and returns the last revision. If it is cut short, as by a crash,
// the lease has ended for good and is revoked like any other that has ended.
func (s *Store) revoke(ctx context.Context, o revokeOperation) (revision int64, err error) {
	for {
		op := o
		revision, err = s.seq.do(ctx, &op)
		if o.begun != 0 && errors.Is(err, ErrLeaseNotFound) {
			return s.Revision(), nil // somebody else has deleted the rest
		}
		if err != nil || !op.more {
			return revision, err
		}
		o.begun = op.epoch
	}
}

func (e *evaluator) setLease(id int64, status leaseStatus) {
	if e.leases == nil {
		e.leases = map[int64]leaseStatus{}
	}
	e.leases[id] = status
}

func (e *evaluator) leaseStatus(id int64) leaseStatus {
	if status, ok := e.leases[id]; ok {
		return status
	}
	return e.s.lessor.status(e, id)
}

// attachments holds keys by lease that the index does not know: those loaded or read ahead of it, and those that the
// batch has attached. A key in it may not be attached any more.
type attachments struct {
	keys map[int64][]string
	rows int   // of the batch, those already in keys
	part int64 // the lease whose keys were loaded only in part, 0 for none
}

// isPart reports whether only a part of a lease's keys was loaded.
func (a *attachments) isPart(id int64) bool { return id != 0 && a.part == id }

func (a *attachments) add(lease int64, key string) {
	if a.keys == nil {
		a.keys = map[int64][]string{}
	}
	a.keys[lease] = append(a.keys[lease], key)
}

// wrote adds the keys that rows of the batch attach. What an aborted operation attached may stay.
func (a *attachments) wrote(rows []*index.Item) {
	for _, it := range rows[a.rows:] {
		if it.Lease != 0 {
			a.add(it.Lease, index.KeyString(it.Key))
		}
	}
	a.rows = len(rows)
}

// leaseKeys returns up to limit live keys attached to a lease, sorted. If there are more, it may return any of them.
func (e *evaluator) leaseKeys(id int64, limit int) []string {
	e.attached.wrote(e.rows)
	keys := slices.Clone(e.attached.keys[id])
	if e.indexed() {
		dropped := e.overlay.Len() + len(e.ahead) // at most this many keys may not be attached any more
		keys = e.s.index.AppendLeaseKeys(keys, id, limit+dropped)
	}
	slices.Sort(keys)
	keys = slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		it := e.live(key)
		return it == nil || it.Lease != id
	})
	return keys[:min(len(keys), limit)]
}
