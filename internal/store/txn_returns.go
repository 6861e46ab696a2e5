package store

import (
	"context"
	"math"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

// leastRowBytes is the least that a row of a result counts as, in bytes: values may be small, but references and
// encoding have a cost.
const leastRowBytes = 1 << 10

// returning runs a transaction that returns many rows and may write. From its evaluation until its result is encoded,
// the result is in memory. So the transaction reserves memory before it is queued.
func (s *Store) returning(ctx context.Context, o *txnOperation, rows int64) (*TxnResult, error) {
	size := o.size()
	if err := s.seq.queue.reserve(size); err != nil {
		return nil, err
	}
	account, err := s.admission.reserve(ctx, s.resultBytes(rows))
	s.seq.queue.release(size)
	if err != nil {
		return nil, err
	}
	if _, err = s.seq.do(ctx, o); err == nil && o.txn.KeepPermit {
		if o.result.Permit, err = account.encode(ctx); err == nil {
			return o.result, nil
		}
	}
	account.Release(math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return o.result, nil
}

// resultBytes is how many bytes so many rows of a transaction count as before they are read.
func (s *Store) resultBytes(rows int64) int64 {
	return min(rows, int64(s.cfg.TxnRows)) * max(leastRowBytes, s.index.AverageValue())
}

// returns estimates how many rows of spans t returns, taking the branch with more of them.
func (t *Txn) returns(x *index.Index) int64 { return max(returns(t.Success, x), returns(t.Failure, x)) }

func returns(ops []Op, x *index.Index) (n int64) {
	for i := range ops {
		switch op := &ops[i]; {
		case op.Range != nil:
			n += op.Range.returns(x)
		case op.Delete != nil && op.Delete.PrevKV:
			n += x.Within(op.Delete.Key, op.Delete.End)
		case op.Txn != nil:
			n += op.Txn.returns(x)
		}
	}
	return n
}

func (r *RangeRequest) returns(x *index.Index) int64 {
	if r.CountOnly || len(r.End) == 0 {
		return 0
	}
	rows := x.Within(r.Key, r.End)
	if r.Revision > 0 {
		rows = max(rows, index.UnknownSpan) // rows of that revision may be deleted since
	}
	if r.Limit > 0 {
		rows = min(rows, r.Limit)
	}
	return rows
}
