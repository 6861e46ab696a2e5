package store

import (
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// txnOperation is a transaction; a put or a delete is one of a single operation.
type txnOperation struct {
	txn    *Txn
	result *TxnResult
}

func (o *txnOperation) size() int64 { return o.txn.size() }

func (t *Txn) size() (n int64) {
	for i := range t.Compare {
		n += int64(64 + len(t.Compare[i].Key) + len(t.Compare[i].Value))
	}
	for _, ops := range [2][]Op{t.Success, t.Failure} {
		for _, op := range ops {
			n += 128
			switch {
			case op.Put != nil:
				n += int64(len(op.Put.Key) + len(op.Put.Value))
			case op.Txn != nil:
				n += op.Txn.size()
			}
		}
	}
	return n
}

func (o *txnOperation) needs(n *backend.Needs) { o.txn.needs(n) }

func (o *txnOperation) leases(ids []int64) []int64 { return o.txn.leases(ids) }

func (t *Txn) leases(ids []int64) []int64 {
	for _, ops := range [2][]Op{t.Success, t.Failure} {
		for _, op := range ops {
			switch {
			case op.Put != nil && op.Put.Lease != 0:
				ids = append(ids, op.Put.Lease)
			case op.Txn != nil:
				ids = op.Txn.leases(ids)
			}
		}
	}
	return ids
}

func (t *Txn) needs(n *backend.Needs) {
	for i := range t.Compare {
		need(n, t.Compare[i].Key, t.Compare[i].End)
	}
	for _, ops := range [2][]Op{t.Success, t.Failure} {
		for _, op := range ops {
			switch {
			case op.Range != nil:
				if op.Range.Revision <= 0 && !op.Range.CountOnly { // see count
					need(n, op.Range.Key, op.Range.End)
				}
			case op.Put != nil:
				need(n, op.Put.Key, nil)
			case op.Delete != nil:
				need(n, op.Delete.Key, op.Delete.End)
			case op.Txn != nil:
				op.Txn.needs(n)
			}
		}
	}
}

func need(n *backend.Needs, key, end []byte) {
	switch sp := makeSpan(key, end); {
	case sp.empty:
	case sp.single:
		n.Keys = append(n.Keys, key)
	default:
		n.Spans = append(n.Spans, sp.backend())
	}
}

// puts counts the puts in both branches of t.
func (t *Txn) puts() (n int) {
	for _, ops := range [2][]Op{t.Success, t.Failure} {
		for _, op := range ops {
			switch {
			case op.Put != nil:
				n++
			case op.Txn != nil:
				n += op.Txn.puts()
			}
		}
	}
	return n
}

func (o *txnOperation) evaluate(e *evaluator) error {
	if !o.txn.readOnly() {
		if err := e.intact(); err != nil {
			return err
		}
	}
	puts := o.txn.puts()
	e.shared = puts > 1
	if puts > 0 {
		if err := e.room(o.size()); err != nil {
			return err
		}
	}
	res, err := e.txn(o.txn)
	if err != nil {
		return err
	}
	res.Revision = e.inner()
	o.result = res
	return nil
}

// grantOperation grants a lease.
type grantOperation struct {
	id  int64
	ttl time.Duration
}

func (o *grantOperation) size() int64          { return 64 }
func (o *grantOperation) needs(*backend.Needs) {}

func (o *grantOperation) leases(ids []int64) []int64 { return append(ids, o.id) }

func (o *grantOperation) evaluate(e *evaluator) error {
	if err := e.intact(); err != nil {
		return err
	}
	if err := e.room(o.size()); err != nil {
		return err
	}
	if e.leaseExists(o.id) {
		return ErrLeaseExists
	}
	if _, changed := e.leases[o.id]; changed {
		e.split = true // revoked and granted again: effects have no order that could say so
	}
	e.setLease(o.id, true)
	e.effects.Granted = append(e.effects.Granted, backend.Lease{ID: o.id, TTL: o.ttl})
	return nil
}

// revokeOperation revokes a lease and deletes its keys; with expired set only if nobody renewed it meanwhile.
type revokeOperation struct {
	id      int64
	expired bool
	found   time.Time // when the database told that it has ended; see expiryFresh
}

func (o *revokeOperation) size() int64            { return 64 }
func (o *revokeOperation) needs(n *backend.Needs) { n.LeaseKeys = append(n.LeaseKeys, o.id) }

func (o *revokeOperation) leases(ids []int64) []int64 { return append(ids, o.id) }

func (o *revokeOperation) evaluate(e *evaluator) error {
	if err := e.intact(); err != nil {
		return err
	}
	if !e.leaseExists(o.id) {
		return ErrLeaseNotFound
	}
	if !o.found.IsZero() && time.Since(o.found) > expiryFresh {
		return nil
	}
	if o.expired && !e.s.lessor.expired(e, o.id) {
		return nil
	}
	keys := e.leaseKeys(o.id)
	if len(keys) > e.s.cfg.TxnRows {
		return ErrTxnTooLarge
	}
	for _, key := range keys {
		it := e.live(key)
		e.write(Row{Key: it.Key, Deleted: true}, it)
	}
	e.setLease(o.id, false)
	e.effects.Revoked = append(e.effects.Revoked, o.id)
	return nil
}

func (e *evaluator) setLease(id int64, exists bool) {
	if e.leases == nil {
		e.leases = map[int64]bool{}
	}
	e.leases[id] = exists
}

func (e *evaluator) leaseExists(id int64) bool {
	if exists, ok := e.leases[id]; ok {
		return exists
	}
	return e.s.lessor.exists(e, id)
}

// leaseKeys returns the live keys attached to a lease, sorted.
func (e *evaluator) leaseKeys(id int64) []string {
	var keys []string
	attached := func(key string, it *item) bool {
		if it.Lease == id {
			keys = append(keys, key)
		}
		return true
	}
	if e.loaded != nil {
		e.loaded.Scan(attached)
	} else {
		keys = e.s.index.leaseKeys(id)
	}
	e.overlay.Scan(attached)
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		it := e.live(key)
		return it == nil || it.Lease != id
	})
}

func (x *index) leaseKeys(id int64) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	keys := make([]string, 0, len(x.leases[id]))
	for key := range x.leases[id] {
		keys = append(keys, key)
	}
	return keys
}

// raiseAlarm raises an alarm whatever became of it earlier in the batch.
func (e *evaluator) raiseAlarm(a backend.Alarm) {
	e.effects.Cleared = slices.DeleteFunc(e.effects.Cleared, func(c backend.Alarm) bool { return c == a })
	if !slices.Contains(e.effects.Raised, a) {
		e.effects.Raised = append(e.effects.Raised, a)
	}
}

// alarmOperation raises or clears alarms.
type alarmOperation struct{ raise, clear []backend.Alarm }

func (o *alarmOperation) size() int64          { return 64 }
func (o *alarmOperation) needs(*backend.Needs) {}

func (o *alarmOperation) evaluate(e *evaluator) error {
	for _, a := range o.raise {
		e.raiseAlarm(a)
	}
	for _, a := range o.clear {
		e.effects.Raised = slices.DeleteFunc(e.effects.Raised, func(r backend.Alarm) bool { return r == a })
		e.effects.Cleared = append(e.effects.Cleared, a)
	}
	return nil
}
