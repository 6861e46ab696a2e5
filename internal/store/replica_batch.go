package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// beginTries is how often a batch takes the clock anew because the store starts anew, or is too far behind.
const beginTries = 5

// begin publishes what others did since the last look, which comes with the clock, as far as it is small. What more
// there is, the batch looks at without its values, in a snapshot of its own: whoever holds the clock does not read what
// can be read later.
func (r *replica) begin(ctx context.Context, batch []*call) (backend.Tx, *evaluator, error) {
	q := r.s.seq
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

// most is the pace of the last batches: the others wait for the clock meanwhile.
func (r *replica) most() int64 { return r.s.seq.pace.bytes }

func (r *replica) join(batch []*call) []*call { return r.s.seq.queue.join(batch, r.most()) }

// unchanged gives the batch's answers, a failed compare or a lease that is not there, the certainty of a linearizable
// read. Where no commit of late vouches for them, one of their own does.
func (r *replica) unchanged(ctx context.Context, tx backend.Tx, e *evaluator) error {
	if r.within(tx.Loaded().Tail.Origin, r.staleness) {
		tx.Rollback()
		r.reachBelow(ctx, e)
		return nil
	}
	if err := tx.Commit(ctx, &backend.Effects{Revision: e.rev}); err != nil {
		//nolint:errorlint // whatever became of the commit, it changes nothing
		return fmt.Errorf("%w: confirm what was read: %v", ErrUnavailable, err)
	}
	r.confirmed.Add(1)
	r.contact.made(time.Now())
	r.reachBelow(ctx, e)
	return nil
}

// departs has questions for the tail wait a moment for the batch, or leave it out.
func (r *replica) departs(base int64) (arrives func()) {
	flight := make(chan struct{})
	r.below.Store(base)
	r.flight.Store(&flight)
	return func() {
		r.below.Store(0)
		r.flight.Store(nil)
		close(flight)
	}
}

// publish makes a batch visible behind what others committed before it. What the tail has brought meanwhile is visible
// already.
func (r *replica) publish(ctx context.Context, e *evaluator) {
	fx := &e.effects
	r.contact.made(time.Now())
	r.hint(fx.Revision, fx.Compacted)
	r.reachBelow(ctx, e)
	r.s.alarms.apply(fx)
	r.mu.Lock()
	defer r.mu.Unlock()
	rev, rows, prevs := r.s.Revision(), e.rows, e.prevs
	for len(rows) > 0 && rows[0].ModRevision <= rev {
		rows, prevs = rows[1:], prevs[1:]
	}
	if e.epoch != r.s.epoch.Load() || rev < e.from || len(rows) > 0 &&
		(rows[0].ModRevision != rev+1 || r.server != e.server) {
		// the store was reset, what is below is not published yet, or another server reported it: the tail publishes
		// the batch
		r.signal()
		return
	}
	if fx.Revision > rev {
		r.batch = fx.Batch
	}
	r.s.publish(e, rows, prevs)
}

// reachBelow publishes what others committed before a batch, so that its answers follow it. Where that cannot be read
// now, the tail publishes it later on, and the batch with it.
func (r *replica) reachBelow(ctx context.Context, e *evaluator) {
	if err := r.reach(ctx, e.from); err != nil {
		r.s.cfg.Logger.Warn("what other replicas wrote before a batch cannot be read yet", "error", err)
	}
}

// doubt has the tail find out, as it finds what the others did.
func (r *replica) doubt(err error) {
	r.s.cfg.Logger.Warn("it is unknown whether a batch was committed; its callers get that error, and the next look "+
		"at the database shows it", "error", err)
	r.signal()
}
