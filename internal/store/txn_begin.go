package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// begin takes the clock and readies the evaluator for batch: what is published is what is committed then.
func (q *sequencer) begin(ctx context.Context, batch []*call) (backend.Tx, *evaluator, error) {
	if q.s.replica != nil {
		return q.beginShared(ctx, batch)
	}
	n, complete, published := q.needs(batch)
	tx, err := q.s.backend.Begin(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	loaded := tx.Loaded()
	if loaded.Clock.Revision != published {
		tx.Rollback()
		return nil, nil, fmt.Errorf("%w: the database is at revision %d, the last one published is %d",
			backend.ErrUnknownOutcome, loaded.Clock.Revision, published)
	}
	return tx, q.evaluator(ctx, loaded, complete), nil
}

// leasing is an operation that may name leases. Where the database keeps their time, it reads them under the clock's
// lock.
type leasing interface {
	leases(ids []int64) []int64
}

// beginTries is how often a batch takes the clock anew because the store starts anew, or is too far behind.
const beginTries = 5

// beginShared is begin where others commit, too. What they did since the last look comes with the clock and is
// published, as far as it is small. What more there is, the batch looks at without its values, in a snapshot of its
// own: whoever holds the clock does not read what can be read later.
func (q *sequencer) beginShared(ctx context.Context, batch []*call) (backend.Tx, *evaluator, error) {
	r := q.s.replica
	for range beginTries {
		asked := r.ask()
		n, complete, _ := q.needs(batch)
		asked.Bytes = lockedBytes
		n.Tail = &asked.TailQuery
		for _, c := range batch {
			if l, ok := c.op.(leasing); ok {
				n.Leases = l.leases(n.Leases)
			}
		}
		tx, err := r.b.Begin(ctx, n)
		if err != nil {
			return nil, nil, err
		}
		loaded := tx.Loaded()
		var e *evaluator
		if err = r.adopt(ctx, asked, &loaded.Tail); err == nil {
			e = q.evaluator(ctx, loaded, complete)
			e.states = make(map[int64]backend.LeaseState, len(loaded.Leases))
			for _, l := range loaded.Leases {
				e.states[l.ID] = l
			}
			if complete {
				err = r.ahead(ctx, tx.(backend.SharedTx), e)
			}
		}
		if err == nil {
			return tx, e, nil
		}
		tx.Rollback()
		r.again.Add(1)
		if errors.Is(err, errBehind) {
			err = r.catchUp(ctx)
		} else {
			err = r.settle(ctx, asked, err)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("%w: this replica does not catch up with the others", ErrUnavailable)
}

// needs returns what the batch reads and the index does not have.
func (q *sequencer) needs(batch []*call) (n backend.Needs, complete bool, published int64) {
	at := q.s.index.Position()
	if !at.Complete {
		n.SpanLimit, n.LeaseLimit = q.s.cfg.TxnRows, q.s.cfg.TxnRows
		for _, c := range batch {
			c.op.needs(&n)
		}
	}
	return n, at.Complete, at.Revision
}

func (q *sequencer) evaluator(ctx context.Context, loaded *backend.Loaded, complete bool) *evaluator {
	e := &evaluator{
		s: q.s, ctx: ctx, epoch: loaded.Clock.Epoch,
		from: loaded.Clock.Revision, oldest: loaded.Clock.Compacted, rev: loaded.Clock.Revision,
		server: loaded.Tail.Origin.Server,
	}
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
