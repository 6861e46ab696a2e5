package store

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// readOnly reports whether t cannot change anything, as etcd sees it: a nested transaction counts as a write.
func (t *Txn) readOnly() bool {
	for _, ops := range [2][]Op{t.Success, t.Failure} {
		for i := range ops {
			if ops[i].Range == nil {
				return false
			}
		}
	}
	return true
}

// runReadOnly runs a transaction that only reads on a snapshot of the current revision, so that no write waits for it,
// however much it reads. ok is false while the index is not complete: then the sequencer has to load what the
// transaction needs.
func (s *Store) runReadOnly(ctx context.Context, t *Txn) (res *TxnResult, ok bool, err error) {
	if !s.index.Position().Complete {
		return nil, false, nil
	}
	if err := s.confirm(ctx); err != nil {
		return nil, true, err
	}
	err = s.retryCompacted(ctx, func() error {
		res, ok, err = s.runReadOnlyOnce(ctx, t)
		return err
	})
	return res, ok, err
}

func (s *Store) runReadOnlyOnce(ctx context.Context, t *Txn) (res *TxnResult, ok bool, err error) {
	r := s.reserving(ctx, t.Copies)
	r.asMessage(t.KeepPermit)
	for reading := r.with(ctx); ; {
		tree, clock := s.index.Now()
		if tree == nil {
			r.release()
			return nil, false, nil
		}
		r.expect(t.returns(s.index))
		res, err := s.runReadOnlyAt(reading, t, tree, clock)
		if err == nil {
			res.Revision = clock.Revision
			res.Permit, err = r.encode(ctx, res.Permit, t.KeepPermit)
			return res, true, err
		}
		if err = r.retry(ctx, err); err != nil {
			return nil, true, err
		}
	}
}

// runReadOnlyAt runs the transaction on a snapshot, given as tree and clock. A long one acquires a permit first.
func (s *Store) runReadOnlyAt(
	ctx context.Context, t *Txn, tree *index.Tree, clock backend.Clock,
) (res *TxnResult, err error) {
	e := &evaluator{
		s: s, from: clock.Revision, oldest: clock.Compacted, rev: clock.Revision,
		epoch: clock.Epoch, loaded: tree, whole: true, reading: true, auth: s.Auth(), // no older than the snapshot
	}
	if e.auth.Enabled() {
		e.caller = auth.From(ctx)
	}
	if err := e.mayRun(t); err != nil {
		return nil, err
	}
	var permit *Permit
	if t.long(tree) {
		bytes := t.returns(s.index) * s.expectedRow(false) * max(1, t.Copies)
		if permit, err = s.admission.acquireOnce(ctx, bytes); err != nil {
			return nil, err
		}
	}
	e.ctx = permit.with(ctx)
	e.client = ctx
	if res, err = e.txn(t); err != nil || !t.KeepPermit {
		permit.End()
		return res, err
	}
	res.Permit = permit
	return res, nil
}
