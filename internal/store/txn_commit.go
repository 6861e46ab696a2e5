package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
)

// try begins, evaluates and commits a batch, as much of it as one transaction takes. It returns the batch, including
// the calls that joined it, and n: err is about the first n calls. If err is nil, these are committed.
func (q *sequencer) try(batch []*call, open bool) (_ []*call, n int, err error) {
	if err := q.s.Err(); err != nil {
		//nolint:errorlint // this outcome is known
		err = fmt.Errorf("%w: the store has stopped writing: %v", ErrUnavailable, err)
		return batch, len(batch), err
	}
	var e *evaluator
	spans := q.trace(batch)
	defer func() { spans.end(e, batch, n, err) }()
	ctx := spans.within(q.s.batchCtx)
	tx, e, err := q.s.peers.begin(ctx, batch)
	if err != nil {
		if errors.Is(err, backend.ErrTooManyRows) {
			if len(batch) > 1 {
				// The batch is split to find the culprit.
				return batch, len(batch), fmt.Errorf("%w: %w", backend.ErrRejected, err)
			}
			return batch, len(batch), fmt.Errorf("%w: %w", ErrTxnTooLarge, err)
		}
		// Some calls need nothing that is corrupt, such as the one that raises the alarm.
		if errors.Is(err, backend.ErrCorrupt) && len(batch) > 1 && !q.s.index.Position().Complete {
			return batch, len(batch), fmt.Errorf("%w: %w", backend.ErrRejected, err)
		}
		return batch, len(batch), fmt.Errorf("begin batch: %w", err)
	}
	if open && e.indexed() {
		from := len(batch)
		batch = q.s.peers.join(batch)
		spans = spans.join(batch, from)
		ctx = spans.within(ctx)
	}
	n = e.run(batch)
	return batch, n, q.finish(ctx, tx, e, batch[:n])
}

// batchRows is how many rows a batch scans or writes; the call that reaches it is the last. It is bounded because
// all calls wait for the whole batch, other replicas wait for the clock, and ranges over rows that the batch itself has
// written get slower with each such row.
const batchRows = 10_000

// run evaluates calls up to the bound of a batch, and returns how many it evaluated. If the rows that the calls need
// were loaded for all of them, the bound is [Config.TxnRows], because the remaining calls would have to load theirs
// again.
func (e *evaluator) run(batch []*call) int {
	for i, c := range batch {
		e.begin()
		e.client = c.ctx
		if e.auth.Enabled() {
			e.caller = auth.From(c.ctx)
		}
		if c.err = c.ctx.Err(); c.err == nil {
			c.err = c.op.evaluate(e)
		}
		if c.err != nil {
			e.abort()
		}
		c.rev = e.end()
		if e.indexed() && e.scanned+len(e.rows) >= batchRows {
			return i + 1
		}
	}
	return len(batch)
}

// finish commits and publishes the effects of the evaluated calls.
func (q *sequencer) finish(ctx context.Context, tx backend.Tx, e *evaluator, batch []*call) error {
	if e.split {
		tx.Rollback()
		return backend.ErrRejected
	}
	if !q.s.peers.steady(e) {
		tx.Rollback()
		return fmt.Errorf("%w: %w: the index was replaced meanwhile", backend.ErrConflict, ErrUnavailable)
	}
	if !e.changed() {
		return q.s.peers.unchanged(ctx, tx, e)
	}
	e.effects.Rows = q.rowBuffer(len(e.rows))
	defer clear(e.effects.Rows)
	defer q.s.peers.departs(e.from)()
	stats, err := q.write(ctx, tx, e, batch)
	if err != nil {
		return err
	}
	stats.Trace = q.s.cfg.Tracer.Of(ctx).Trace()
	q.observe(ctx, e, stats)
	return nil
}

// changed reports whether the batch has any effects to commit.
func (e *evaluator) changed() bool {
	fx := &e.effects
	return len(e.rows) > 0 || fx.Compacted != 0 || e.auth != e.was || len(fx.Tokens) > 0 ||
		len(fx.Granted)+len(fx.Ending)+len(fx.Revoked)+len(fx.Raised)+len(fx.Cleared) > 0
}

// write commits the effects of a batch and returns its statistics. The caller has checked the quota for its rows.
func (q *sequencer) write(ctx context.Context, tx backend.Tx, e *evaluator, batch []*call) (Batch, error) {
	fx := &e.effects
	fx.Revision, fx.Batch = e.rev, rand.Int64()|1
	if e.auth != e.was {
		fx.Auth = e.auth.Since(e.was)
	}
	stats := Batch{Operations: len(batch), Granted: fx.Granted, Revoked: len(fx.Revoked)}
	for i, it := range e.rows {
		fx.Rows[i] = it.Row
		if it.Deleted {
			stats.Deletes++
		}
		stats.ValueBytes += int64(len(it.Value))
	}
	stats.Puts = len(e.rows) - stats.Deletes
	began := time.Now()
	q.s.committing.Store(&began)
	err := tx.Commit(ctx, fx)
	q.s.committing.Store(nil)
	stats.Commit = time.Since(began)
	q.pace.committed(size(batch), stats.Commit)
	if err == nil {
		return stats, nil
	}
	if !errors.Is(err, backend.ErrRejected) && !errors.Is(err, backend.ErrNoSpace) &&
		!errors.Is(err, backend.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", backend.ErrUnknownOutcome, err)
	}
	return stats, fmt.Errorf("commit %d rows: %w", len(fx.Rows), err)
}

// observe makes a committed batch visible, and reports it to the observer.
func (q *sequencer) observe(ctx context.Context, e *evaluator, stats Batch) {
	q.s.noteFault(nil)
	q.s.peers.publish(ctx, e)
	if o := q.s.cfg.Observer; o != nil {
		o.Batch(stats)
	}
}

// rowBufferMax bounds the capacity that is retained for the rows of the next batch.
const rowBufferMax = 4096

// rowBuffer returns a slice for the n rows of one batch.
func (q *sequencer) rowBuffer(n int) []Row {
	if n > rowBufferMax {
		return make([]Row, n)
	}
	if cap(q.rows) < n {
		q.rows = make([]Row, 0, max(n, 2*cap(q.rows)))
	}
	return q.rows[:n]
}

const (
	// paceTime is roughly how long a batch may take to commit if there are several replicas: the others wait for the
	// clock during that time, and each of them waits for all the others.
	paceTime = 300 * time.Millisecond
	// leastBatch and mostBatch bound the bytes of such a batch. Smaller batches do not lower the fixed cost of a
	// commit, and larger ones save hardly anything.
	leastBatch = 512 << 10
	mostBatch  = 4 << 20
)

// pace bounds the bytes of the next batch by how long the last ones took.
type pace struct{ bytes int64 }

func newPace() pace { return pace{1 << 20} }

// committed records how long a batch took. A batch below the bound says nothing about larger ones, unless it took
// longer than paceTime.
func (p *pace) committed(bytes int64, duration time.Duration) {
	if duration <= paceTime && bytes < p.bytes {
		return
	}
	fit := int64(float64(bytes) * float64(paceTime) / float64(max(duration, 1)))
	p.bytes = max(leastBatch, min(fit, 2*p.bytes, mostBatch))
}
