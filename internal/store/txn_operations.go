package store

import (
	"slices"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// txnOperation is a transaction. A put or a delete is a transaction of a single operation.
type txnOperation struct {
	txn         *Txn
	result      *TxnResult
	reservation reservation // for the values that it fetches, unless it returns none
}

func (o *txnOperation) size() int64 { return o.txn.size() }

func (t *Txn) size() (n int64) {
	for i := range t.Compare {
		c := &t.Compare[i]
		n += int64(64 + len(c.Key) + len(c.End) + len(c.Value))
	}
	for _, ops := range [2][]Op{t.Success, t.Failure} {
		for _, op := range ops {
			n += 128
			switch {
			case op.Range != nil:
				n += int64(len(op.Range.Key) + len(op.Range.End))
			case op.Put != nil:
				n += int64(len(op.Put.Key) + len(op.Put.Value))
			case op.Delete != nil:
				n += int64(len(op.Delete.Key) + len(op.Delete.End))
			case op.Txn != nil:
				n += op.Txn.size()
			}
		}
	}
	return n
}

func (o *txnOperation) keysScanned(x *index.Index) int64 { return o.txn.keysScanned(x) }

// keysScanned counts the keys of the spans in t, in the branch with more of them.
func (t *Txn) keysScanned(x *index.Index) (n int64) {
	for i := range t.Compare {
		n += x.Within(t.Compare[i].Key, t.Compare[i].End)
	}
	return n + max(keysScanned(t.Success, x), keysScanned(t.Failure, x))
}

func keysScanned(ops []Op, x *index.Index) (n int64) {
	for _, op := range ops {
		switch {
		case op.Range != nil:
			n += op.Range.keysScanned(x)
		case op.Delete != nil:
			n += x.Within(op.Delete.Key, op.Delete.End)
		case op.Txn != nil:
			n += op.Txn.keysScanned(x)
		}
	}
	return n
}

func (r *RangeRequest) keysScanned(x *index.Index) int64 {
	if len(r.End) == 0 {
		return 0
	}
	keys := x.Within(r.Key, r.End)
	switch {
	case r.Revision > 0, !x.Position().Complete: // only the database knows how many, whatever the limit
		return max(keys, index.UnknownSpan)
	case r.CountOnly:
		return 0
	case r.plain() && r.Limit > 0:
		return min(keys, r.Limit)
	}
	return keys
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
	switch sp := index.NewSpan(key, end); {
	case sp.Empty:
	case sp.Single:
		n.Keys = append(n.Keys, key)
	default:
		n.Spans = append(n.Spans, sp.Backend())
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
	if o.reservation.of != nil {
		o.reservation.recount(rowsCounted{})
		e.reservation = &o.reservation
	}
	if !o.txn.readOnly() {
		if err := e.intact(); err != nil {
			return err
		}
	}
	puts := o.txn.puts()
	e.shared = puts > 1
	if puts > 0 && e.s.alarms.is(AlarmNoSpace) {
		return ErrQuota
	}
	if err := e.mayRun(o.txn); err != nil {
		return err
	}
	if puts > 0 {
		if err := e.checkQuota(o.size()); err != nil {
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

// raiseAlarm raises an alarm, even if an earlier operation of the batch cleared it.
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
	if err := e.auth.IsAdmin(e.caller); err != nil {
		return err
	}
	for _, a := range o.raise {
		if !e.s.alarms.has(a) && e.s.alarms.count()+len(e.effects.Raised) >= maxAlarms {
			return ErrTooManyAlarms
		}
		e.raiseAlarm(a)
	}
	for _, a := range o.clear {
		e.effects.Raised = slices.DeleteFunc(e.effects.Raised, func(r backend.Alarm) bool { return r == a })
		e.effects.Cleared = append(e.effects.Cleared, a)
	}
	return nil
}
