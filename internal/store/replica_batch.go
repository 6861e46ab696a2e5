package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// beginTries bounds how often a batch takes the clock while the store starts over or is too far behind.
const beginTries = 5

// begin publishes what others did since the last read of the tail, if it is small; it comes with the clock. If there is
// more, the batch reads the rest without values, in its own snapshot: a batch that holds the clock does not read what
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
			switch {
			case complete:
				err = r.ahead(ctx, tx.(backend.SharedTx), e)
			case e.auth.Enabled() && !e.keysOfLeases:
				err = errReset // somebody has enabled authentication meanwhile
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

// most follows the pace of the last batches, because the others wait for the clock while a batch commits.
func (r *replica) most() int64 { return r.s.seq.pace.bytes }

func (r *replica) join(batch []*call) []*call { return r.s.seq.queue.join(batch, r.most()) }

// unchanged gives the batch's answers (a failed compare, or a lease that does not exist) the certainty of a
// linearizable read. If no recent commit vouches for them, it makes one.
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
	r.reached()
	r.reachBelow(ctx, e)
	return nil
}

// departs makes questions for the tail wait a moment for the batch, or leave it out.
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

// publish makes a batch visible after what others committed before it. The tail may have made a part of it visible
// already.
func (r *replica) publish(ctx context.Context, e *evaluator) {
	fx := &e.effects
	r.reached()
	r.hint(fx.Revision, fx.Compacted)
	r.reachBelow(ctx, e)
	r.s.alarms.apply(fx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if fx.Auth != nil {
		r.changed(ctx, e)
	}
	rev, rows, prevs := r.s.Revision(), e.rows, e.prevs
	for len(rows) > 0 && rows[0].ModRevision <= rev {
		rows, prevs = rows[1:], prevs[1:]
	}
	if e.epoch != r.s.epoch.Load() || rev < e.from || len(rows) > 0 &&
		(rows[0].ModRevision != rev+1 || r.server != e.server) {
		// The store was reset, what lies below the batch is not published yet, or another server reported it. The tail
		// then publishes the batch.
		r.signal()
		return
	}
	if fx.Revision > rev {
		r.batch = fx.Batch
	}
	r.s.publish(e, rows, prevs)
}

// changed makes a batch's change of users and roles visible. Callers hold mu.
func (r *replica) changed(ctx context.Context, e *evaluator) {
	if e.epoch != r.s.epoch.Load() {
		return // the reset has read them
	}
	if r.alarms != e.alarms { // a tail has come in between
		if err := r.s.loadAuth(backend.Urgent(ctx), r.b); err == nil {
			return
		}
	}
	r.s.setAuth(e.auth)
}

// reachBelow publishes what others committed before a batch, so that the batch's answers follow it. If that cannot be
// read yet, the tail publishes it later, and the batch with it.
func (r *replica) reachBelow(ctx context.Context, e *evaluator) {
	if err := r.reach(ctx, e.from); err != nil {
		r.s.cfg.Logger.Warn("what other replicas wrote before a batch cannot be read yet", "error", err)
	}
}

// doubt leaves it to the tail to find out, as it does for the commits of others.
func (r *replica) doubt(err error) {
	r.s.cfg.Logger.Warn("it is unknown whether a batch was committed; its callers get that error, and the next look "+
		"at the database shows it", "error", err)
	r.signal()
}
