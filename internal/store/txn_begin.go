package store

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// leasing is an operation that may name leases. If the database keeps the time of leases, it reads them under the
// clock's lock.
type leasing interface {
	leases(ids []int64) []int64
}

// needs returns what the batch reads that the index does not have, whether the index is complete, and the published
// revision.
func (q *sequencer) needs(batch []*call) (n backend.Needs, complete bool, published int64) {
	at := q.s.index.Position()
	if !at.Complete {
		n.SpanLimit, n.LeaseLimit = q.s.cfg.TxnRows, q.s.cfg.TxnRows
		q.rights = q.s.Auth().Enabled()
		for _, c := range batch {
			c.op.needs(&n)
			if t, ok := c.op.(*txnOperation); ok && q.rights {
				n.LeaseKeys = t.leases(n.LeaseKeys) // attaching a key needs rights to the lease's other keys
			}
		}
	}
	return n, at.Complete, at.Revision
}

func (q *sequencer) evaluator(ctx context.Context, loaded *backend.Loaded, complete bool) *evaluator {
	e := &evaluator{
		s: q.s, epoch: loaded.Clock.Epoch, auth: q.s.Auth(),
		from: loaded.Clock.Revision, oldest: loaded.Clock.Compacted, rev: loaded.Clock.Revision,
		server: loaded.Tail.Origin.Server, alarms: loaded.Tail.Alarms, keysOfLeases: q.rights,
	}
	e.ctx = context.WithValue(ctx, reservationKey{}, e)
	e.was = e.auth
	q.s.quota.fresh = false
	if !complete {
		e.loaded = index.NewTree()
		for i := range loaded.Rows {
			e.loaded.Set(index.NewItem(loaded.Rows[i]))
		}
		for i := range loaded.LeaseRows {
			r := &loaded.LeaseRows[i]
			key := index.KeyString(r.Key)
			if _, ok := e.loaded.Get(key); !ok {
				e.loaded.Set(index.NewBareItem(*r))
			}
			e.attached.add(r.Lease, key)
		}
		if rows := loaded.LeaseRows; len(rows) > q.s.cfg.TxnRows {
			e.attached.part = rows[0].Lease // see [backend.Needs.LeaseKeys]
		}
	}
	return e
}
