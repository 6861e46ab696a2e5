package store

import "fmt"

// mayRun reports whether the caller may do everything that t names, in both branches, whichever is taken.
func (e *evaluator) mayRun(t *Txn) error {
	if !e.auth.Enabled() {
		return nil
	}
	for i := range t.Compare {
		if err := e.auth.CanRead(e.caller, t.Compare[i].Key, t.Compare[i].End); err != nil {
			return err
		}
	}
	for _, ops := range [2][]Op{t.Success, t.Failure} {
		for i := range ops {
			if err := e.mayDo(&ops[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *evaluator) mayDo(op *Op) error {
	switch {
	case op.Range != nil:
		return e.auth.CanRead(e.caller, op.Range.Key, op.Range.End)
	case op.Put != nil:
		return e.mayPut(op.Put)
	case op.Delete != nil:
		err := e.auth.CanWrite(e.caller, op.Delete.Key, op.Delete.End)
		if err == nil && op.Delete.PrevKV {
			err = e.auth.CanRead(e.caller, op.Delete.Key, op.Delete.End)
		}
		return err
	case op.Txn != nil:
		return e.mayRun(op.Txn)
	}
	return nil
}

func (e *evaluator) mayPut(p *PutRequest) error {
	err := e.auth.CanWrite(e.caller, p.Key, nil)
	if err == nil && p.Lease != 0 {
		err = e.mayEnd(p.Lease) // the end of the lease deletes all of its keys
	}
	if err == nil && p.PrevKV {
		err = e.auth.CanRead(e.caller, p.Key, nil)
	}
	return err
}

// mayEnd reports whether the caller may write all keys that are attached to a lease.
func (e *evaluator) mayEnd(lease int64) error {
	if !e.auth.Enabled() || e.auth.IsAdmin(e.caller) == nil {
		return nil
	}
	if !e.indexed() && !e.keysOfLeases {
		e.split = true // authentication was enabled by the same batch, which did not load them
		return nil
	}
	limit := e.s.cfg.TxnRows
	keys := e.leaseKeys(lease, limit+1)
	if len(keys) > limit || e.attached.isPart(lease) {
		return fmt.Errorf("%w: the rights to more than %d keys of a lease cannot be checked", ErrTxnTooLarge, limit)
	}
	for _, key := range keys {
		if err := e.auth.CanWrite(e.caller, []byte(key), nil); err != nil {
			return err
		}
	}
	return nil
}
