package store

import (
	"context"
	"fmt"

	"github.com/tidwall/btree"

	"github.com/sqlstore/sqlstore/backend"
)

// begin takes the clock and readies the evaluator for batch: what is published is what is committed then.
func (q *sequencer) begin(ctx context.Context, batch []*call) (backend.Tx, *evaluator, error) {
	if q.s.follower != nil {
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

// leasing is an operation that may name leases: where the database keeps their time it must tell of them under the clock's lock.
type leasing interface {
	leases(ids []int64) []int64
}

// beginTries is how often a batch takes the clock anew because more was committed by others than one question tells.
const beginTries = 20

// beginShared is begin where others commit, too: what they did since the last look comes with the clock, and is published first.
func (q *sequencer) beginShared(ctx context.Context, batch []*call) (backend.Tx, *evaluator, error) {
	f := q.s.follower
	for range beginTries {
		asked := f.ask()
		n, complete, _ := q.needs(batch)
		n.Tail = &asked.TailQuery
		for _, c := range batch {
			if l, ok := c.op.(leasing); ok {
				n.Leases = l.leases(n.Leases)
			}
		}
		tx, err := f.b.Begin(ctx, n)
		if err != nil {
			return nil, nil, err
		}
		loaded := tx.Loaded()
		if err = f.adopt(ctx, asked, &loaded.Tail); err == nil && q.current(loaded.Clock.Revision, complete) {
			e := q.evaluator(ctx, loaded, complete)
			e.states = loaded.Leases
			return tx, e, nil
		}
		tx.Rollback()
		f.again.Add(1)
		if err == nil {
			err = f.catchUp(ctx)
		} else {
			err = f.settle(ctx, asked, err)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("%w: others commit faster than this replica reads", ErrUnavailable)
}

// current says whether the index is at revision, and still as complete as it was when the needs of a batch were told.
func (q *sequencer) current(revision int64, complete bool) bool {
	x := q.s.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.rev == revision && (x.complete || !complete)
}

// needs tells what the batch looks at, as far as the index cannot be asked.
func (q *sequencer) needs(batch []*call) (n backend.Needs, complete bool, published int64) {
	x := q.s.index
	x.mu.RLock()
	complete, published = x.complete, x.rev
	x.mu.RUnlock()
	if !complete {
		n.SpanLimit = q.s.cfg.TxnRows
		for _, c := range batch {
			c.op.needs(&n)
		}
	}
	return n, complete, published
}

func (q *sequencer) evaluator(ctx context.Context, loaded *backend.Loaded, complete bool) *evaluator {
	e := &evaluator{s: q.s, ctx: ctx, rev: loaded.Clock.Revision, incarnation: loaded.Clock.Incarnation}
	if !complete {
		e.loaded = btree.NewMap[string, *item](0)
		for i := range loaded.Rows {
			e.loaded.Set(keyString(loaded.Rows[i].Key), newItem(loaded.Rows[i]))
		}
	}
	return e
}

// join adds the calls that came while the clock was waited for: with several replicas most of a batch's time. One that names a lease
// has to be in the batch from its beginning, and those behind it wait with it.
func (q *sequencer) join(batch []*call) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for ; n < len(q.waiting); n++ {
		c := q.waiting[n]
		if l, ok := c.op.(leasing); ok && len(l.leases(nil)) > 0 {
			break
		}
		q.bytes -= c.op.size()
		if !c.left.Load() {
			batch = append(batch, c)
		}
	}
	left := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[left:])
	q.waiting = q.waiting[:left]
	return batch
}
