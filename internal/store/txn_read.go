package store

import (
	"fmt"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

// scan returns the live rows of [key, end) in key order. Errors: [ErrTxnTooLarge] above [Config.TxnRows].
func (e *evaluator) scan(key, end []byte) ([]*index.Item, error) {
	limit := e.s.cfg.TxnRows
	items, more := e.first(key, end, limit)
	if more {
		return nil, fmt.Errorf("%w: more than %d", ErrTxnTooLarge, limit)
	}
	if e.reading {
		return items, nil
	}
	return items, e.countScanned(len(items))
}

// countScanned counts rows that the transaction scans. Errors: [ErrTxnTooLarge] above [Config.TxnRows].
func (e *evaluator) countScanned(rows int) error {
	if e.txnScanned += rows; e.txnScanned > e.s.cfg.TxnRows {
		return fmt.Errorf("%w: more than %d", ErrTxnTooLarge, e.s.cfg.TxnRows)
	}
	return nil
}

// read serves a range inside a transaction.
func (e *evaluator) read(r *RangeRequest) (*RangeResult, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	if r.Revision > 0 {
		if err := e.s.peers.reach(e.ctx, e.from); err != nil { // the revision may not be published yet
			return nil, err
		}
		res, err := e.s.readAgain(e.ctx, r)
		if err == nil {
			res.Revision = e.inner()
			scanned := len(res.Rows)
			byRank := r.CountOnly && r.plain() && e.s.index.CanCount(r.Revision, e.epoch)
			if !e.reading && !byRank { // writes wait for the walk, also over rows that are not returned
				scanned = max(scanned, int(res.Count))
			}
			err = e.countScanned(scanned)
		}
		return res, err
	}
	if r.CountOnly {
		n, err := e.count(r.Key, r.End)
		return &RangeResult{Count: n, Revision: e.inner()}, err
	}
	if r.plain() && r.Limit > 0 && e.indexed() {
		return e.page(r)
	}
	items, err := e.scan(r.Key, r.End)
	if err != nil {
		return nil, err
	}
	res := &RangeResult{Count: int64(len(items)), Revision: e.inner()}
	if items, res.More, err = e.s.selected(e.ctx, items, e.epoch, r); err != nil {
		return nil, err
	}
	if e.reading {
		if err := e.countScanned(len(items)); err != nil {
			return nil, err
		}
	}
	res.Rows, err = e.s.shape(e.ctx, items, e.epoch, r)
	return res, err
}

// page is read for a limited range in key order. It counts the rows beyond the limit by rank, without scanning them.
func (e *evaluator) page(r *RangeRequest) (*RangeResult, error) {
	limit := int(min(r.Limit, int64(e.s.cfg.TxnRows)))
	items, more := e.first(r.Key, r.End, limit)
	if len(items) > limit {
		items, more = items[:limit], true
	}
	if more && int64(limit) < r.Limit {
		return nil, fmt.Errorf("%w: more than %d", ErrTxnTooLarge, limit)
	}
	if err := e.countScanned(len(items)); err != nil {
		return nil, err
	}
	n, err := e.count(r.Key, r.End)
	if err != nil {
		return nil, err
	}
	rows, err := e.s.rows(e.ctx, items, e.epoch, r)
	return &RangeResult{Rows: rows, More: more, Count: n, Revision: e.inner()}, err
}
