package etcdshim

import (
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/sqlstore/sqlstore/internal/store"
)

// This file refuses invalid requests, in etcd's order: within a transaction first the counts of a level, then its
// compares, then both branches depth-first, and finally keys that are written twice.

func checkRange(r *store.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	if r.Order < store.SortNone || r.Order > store.SortDescend || r.Target < store.SortKey ||
		r.Target > store.SortValue {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

func checkRangeStream(r *store.RangeRequest) error {
	if err := checkRange(r); err != nil {
		return err
	}
	if r.Order == store.SortDescend || r.Order == store.SortAscend && r.Target != store.SortKey {
		return errStreamSort
	}
	if r.MinModRev != 0 || r.MaxModRev != 0 || r.MinCreateRev != 0 || r.MaxCreateRev != 0 {
		return errStreamFilter
	}
	return nil
}

func checkPut(r *store.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

func checkDelete(r *store.DeleteRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// checkTxn refuses, among others, a transaction of more than most operations.
func checkTxn(t *store.Txn, most int) error {
	if err := checkOps(t, most); err != nil {
		return err
	}
	if simple(t.Success) && simple(t.Failure) {
		return nil
	}
	if _, err := writtenBy(t.Success); err != nil {
		return err
	}
	_, err := writtenBy(t.Failure)
	return err
}

func checkOps(t *store.Txn, most int) error {
	count := max(len(t.Compare), len(t.Success), len(t.Failure))
	if count > most {
		return rpctypes.ErrGRPCTooManyOps
	}
	for i := range t.Compare {
		if len(t.Compare[i].Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [2][]store.Op{t.Success, t.Failure} {
		for i := range ops {
			if err := checkOp(&ops[i], most-count); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *store.Op, most int) error {
	switch {
	case op.Range != nil:
		return checkRange(op.Range)
	case op.Put != nil:
		return checkPut(op.Put)
	case op.Delete != nil:
		return checkDelete(op.Delete)
	case op.Txn != nil:
		return checkOps(op.Txn, most)
	}
	return rpctypes.ErrGRPCKeyNotFound
}

// simple reports whether no key can be written twice.
func simple(ops []store.Op) bool {
	return len(ops) == 0 || len(ops) == 1 && ops[0].Txn == nil
}
