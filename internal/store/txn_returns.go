package store

import (
	"context"
	"errors"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

// leastRowBytes is the least that a row of a result counts as, in bytes: values may be small, but references and
// encoding have a cost.
const leastRowBytes = 1 << 10

// returning runs a transaction that returns rows and may write. From its evaluation until its result is encoded, the
// values that it fetches are in memory. It reserves that during the evaluation; where it would have to wait, it changes
// nothing, and is queued again later. If it returns many rows, it reserves memory for these before it is queued.
func (s *Store) returning(ctx context.Context, o *txnOperation, rows int64) (res *TxnResult, err error) {
	r := &o.reservation
	r.of, r.client, r.copies, r.write = s.admission, ctx, max(1, o.txn.Copies), true
	r.asMessage(o.txn.KeepPermit || o.txn.message)
	r.expect(rows)
	defer func() {
		if res == nil || res.Permit == nil {
			r.end()
		}
	}()
	if rows > longRead {
		r.least = min(rows, int64(s.cfg.TxnRows)) * max(leastRowBytes, s.index.AverageValue())
		if err = s.awaitMemory(ctx, o, &unreserved{r.least}); err != nil {
			return nil, err
		}
		r.waited = 0 // no statement has needed it yet
	}
	for {
		if _, err = s.seq.do(ctx, o); err == nil {
			break
		}
		if err = s.awaitMemory(ctx, o, err); err != nil {
			return nil, err
		}
	}
	if o.result.Permit, err = r.encode(ctx, nil, o.txn.KeepPermit); err != nil {
		return nil, err
	}
	return o.result, nil
}

// awaitMemory waits for the memory without which a transaction has failed, as part of the queue. Errors: any other that
// it has failed with, ctx's, those of the queue.
func (s *Store) awaitMemory(ctx context.Context, o *txnOperation, err error) error {
	if _, ok := errors.AsType[*unreserved](err); !ok {
		return err
	}
	size := o.size()
	if err := s.seq.queue.reserve(size); err != nil {
		return err
	}
	defer s.seq.queue.release(size)
	return o.reservation.retry(ctx, err)
}

// returns estimates how many rows t returns, taking the branch with more of them.
func (t *Txn) returns(x *index.Index) int64 { return max(returns(t.Success, x), returns(t.Failure, x)) }

func returns(ops []Op, x *index.Index) (n int64) {
	for i := range ops {
		switch op := &ops[i]; {
		case op.Range != nil:
			n += op.Range.returns(x)
		case op.Put != nil && (op.Put.PrevKV || op.Put.IgnoreValue):
			n++
		case op.Delete != nil && op.Delete.PrevKV:
			n += max(1, x.Within(op.Delete.Key, op.Delete.End))
		case op.Txn != nil:
			n += op.Txn.returns(x)
		}
	}
	return n
}

func (r *RangeRequest) returns(x *index.Index) int64 {
	if r.CountOnly {
		return 0
	}
	rows := max(1, x.Within(r.Key, r.End))
	if r.Limit > 0 {
		rows = min(rows, r.Limit)
	}
	return rows
}
