package store

import (
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// txn runs a whole transaction. All compares are evaluated first, on the state before it, then the branches taken.
func (e *evaluator) txn(t *Txn) (*TxnResult, error) {
	path, err := e.compares(t, nil)
	if err != nil {
		return nil, err
	}
	if err := e.check(t, path); err != nil {
		return nil, err
	}
	rest := path
	return e.apply(t, &rest)
}

// compares evaluates t's compares and those of the nested transactions in the branches taken. It appends the results to
// path in the order in which apply consumes them.
func (e *evaluator) compares(t *Txn, path []bool) ([]bool, error) {
	ok := true
	for i := range t.Compare {
		if err := e.abandoned(i); err != nil {
			return nil, err
		}
		met, err := e.satisfied(&t.Compare[i])
		if err != nil {
			return nil, err
		}
		if !met {
			ok = false
			break
		}
	}
	path = append(path, ok)
	var err error
	for _, op := range t.branch(ok) {
		if op.Txn != nil {
			if path, err = e.compares(op.Txn, path); err != nil {
				return nil, err
			}
		}
	}
	return path, nil
}

// abandoned returns the error of the caller's context, so that a long transaction ends with its caller. The first step
// need not ask.
func (e *evaluator) abandoned(step int) error {
	if step == 0 || e.client == nil {
		return nil
	}
	return e.client.Err()
}

func (t *Txn) branch(ok bool) []Op {
	if ok {
		return t.Success
	}
	return t.Failure
}

func (e *evaluator) apply(t *Txn, path *[]bool) (*TxnResult, error) {
	ok := (*path)[0]
	*path = (*path)[1:]
	ops := t.branch(ok)
	res := &TxnResult{Succeeded: ok, Results: make([]OpResult, len(ops))}
	for i, op := range ops {
		err := e.abandoned(i)
		if err != nil {
			return nil, err
		}
		switch out := &res.Results[i]; {
		case op.Range != nil:
			out.Range, err = e.read(op.Range)
		case op.Put != nil:
			out.Put, err = e.put(op.Put)
		case op.Delete != nil:
			out.Delete, err = e.delete(op.Delete)
		case op.Txn != nil:
			out.Txn, err = e.apply(op.Txn, path)
		}
		if err != nil {
			return nil, err
		}
	}
	return res, nil
}

// check refuses what only the state can refuse, in the branches taken, before anything is applied: unknown leases,
// ignore_* on missing keys, unreadable revisions.
func (e *evaluator) check(t *Txn, path []bool) error {
	_, err := e.checkBranch(t, path)
	return err
}

func (e *evaluator) checkBranch(t *Txn, path []bool) ([]bool, error) {
	ok := path[0]
	path = path[1:]
	for _, op := range t.branch(ok) {
		var err error
		switch {
		case op.Put != nil:
			err = e.checkPut(op.Put)
		case op.Range != nil:
			err = e.checkRange(op.Range)
		case op.Txn != nil:
			path, err = e.checkBranch(op.Txn, path)
		}
		if err != nil {
			return nil, err
		}
	}
	return path, nil
}

func (e *evaluator) checkPut(p *PutRequest) error {
	if p.Lease != 0 && !p.IgnoreLease && e.leaseStatus(p.Lease) != leaseLive {
		return ErrLeaseNotFound
	}
	if (p.IgnoreValue || p.IgnoreLease) && e.live(index.KeyString(p.Key)) == nil {
		return ErrKeyNotFound
	}
	return nil
}

// checkRange refuses a range that cannot be read. Outside of a transaction, a negative revision means the current one.
// Inside one, etcd compares it with the compacted revision, see index.EtcdCompacted.
func (e *evaluator) checkRange(r *RangeRequest) error {
	if r.Revision == 0 {
		return nil
	}
	c := backend.Clock{Revision: e.from, Compacted: index.EtcdCompacted(e.oldest)}
	return c.Check(r.Revision)
}
