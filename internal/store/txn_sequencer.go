package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// operation is one request for the sequencer.
type operation interface {
	// needs adds what evaluate will look at, for when the index is not complete.
	needs(n *backend.Needs)
	// evaluate runs the operation on e and keeps its answer. It may be called again, on another state, when a batch is
	// split.
	evaluate(e *evaluator) error
	// size is roughly the bytes that the operation holds while it waits.
	size() int64
}

// looking is an operation that may look at more keys than it names.
type looking interface {
	// looks is about how many.
	looks(x *index.Index) int64
}

// call is an operation on its way through the sequencer.
type call struct {
	// its caller's: once that has ended, an operation that has not been evaluated is not evaluated any more
	ctx  context.Context
	op   operation
	rev  int64 // the store's revision after the operation
	err  error
	done chan struct{}

	bytes  int64 // the operation's size
	keys   int32 // about as many as it looks at without naming them
	ended  bool  // it revokes a lease that has ended
	queued bool  // guarded by queue.mu
}

func (s *Store) newCall(ctx context.Context, op operation) *call {
	c := &call{ctx: ctx, op: op, done: make(chan struct{}), bytes: op.size()}
	if l, ok := op.(looking); ok {
		c.keys = int32(min(l.looks(s.index), math.MaxInt32))
	}
	if o, ok := op.(*revokeOperation); ok {
		c.ended = o.expired
	}
	return c
}

// sequencer orders all writes. One goroutine takes the operations that wait (see queue), evaluates them in order in
// memory, commits all their rows in one database transaction under the clock, publishes them and answers the callers;
// the next batch fills meanwhile. So commit order is revision order, revisions have no gaps, and one fsync serves the
// batch.
//
// Nothing is published or answered before the commit has returned. A commit of unknown outcome is not repeated: its
// callers get the error. Where this process is the only one that writes, the store stops writing (see Store.Done),
// since only a restart can read what happened; where there are others, the next batch reads it like what they did, once
// it holds the clock.
type sequencer struct {
	s       *Store
	queue   *queue
	pace    pace
	stopped chan struct{}
	rows    []Row // of the batch under way
}

func newSequencer(s *Store) *sequencer {
	return &sequencer{
		s: s, queue: newQueue(s.cfg.QueueRequests, s.cfg.QueueBytes), pace: newPace(),
		stopped: make(chan struct{}),
	}
}

// do queues op and waits for its answer. Errors: [ErrTooManyRequests] when the queue is full, [ErrClosed], ctx's error
// (the operation may then still happen), and those of the operation and the backend.
func (q *sequencer) do(ctx context.Context, op operation) (rev int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := q.s.newCall(ctx, op)
	if err := q.queue.add(c); err != nil {
		return 0, err
	}
	select {
	case <-c.done:
		return c.rev, c.err
	case <-ctx.Done():
		q.queue.leave(c)
		return 0, ctx.Err()
	}
}

// most bounds the bytes of a batch where others wait for the clock meanwhile.
func (q *sequencer) most() int64 {
	if q.s.replica != nil {
		return q.pace.bytes
	}
	return math.MaxInt64
}

func (q *sequencer) run() {
	defer close(q.stopped)
	for batch := q.queue.take(q.most()); batch != nil; batch = q.queue.take(q.most()) {
		kept := batch[:0]
		for _, c := range batch {
			if c.ctx.Err() == nil {
				kept = append(kept, c)
			}
		}
		q.commit(kept, true)
		clear(batch[:cap(batch)]) // those that joined are behind its end
	}
}

// close refuses further operations and waits until those in the queue are answered.
func (q *sequencer) close() {
	q.queue.close()
	<-q.stopped
}

// conflictTries is how often a batch may give way to another transaction of the database, or wait for the clock in
// vain: about 15 s in all while a caller still waits. Requests of clients end before that, by bounds of their own; what
// the store itself does, such as revoking leases, would only have to begin again.
const conflictTries = 3

// commit runs a batch, to which others may come where open says so, and answers its calls.
func (q *sequencer) commit(batch []*call, open bool) {
	for len(batch) > 0 {
		batch, open = q.commitPart(batch, open), false
	}
}

// commitPart commits as much of the batch as one transaction takes, and returns the rest. What the database refuses for
// its contents is split until only the culprit fails.
func (q *sequencer) commitPart(batch []*call, open bool) (rest []*call) {
	batch, n, err := q.try(batch, open)
	for tries := 1; gaveWay(err) && tries < conflictTries && awaited(batch); tries++ {
		batch, n, err = q.try(batch, false)
	}
	batch, rest = batch[:n], batch[n:]
	unknown := errors.Is(err, backend.ErrUnknownOutcome)
	if errors.Is(err, backend.ErrRejected) && !unknown && len(batch) > 1 {
		half := len(batch) / 2
		q.commit(batch[:half], false)
		q.commit(batch[half:], false)
		return rest
	}
	if unknown {
		q.s.doubt(err)
	}
	if err != nil {
		q.s.noteFault(err)
	}
	for _, c := range batch {
		if err != nil {
			c.err = err
		}
		close(c.done)
	}
	return rest
}

// gaveWay says that nothing is wrong with a batch but that others were before it, and that nothing of it has happened.
func gaveWay(err error) bool {
	return !errors.Is(err, backend.ErrUnknownOutcome) &&
		(errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrClockHeld))
}

// awaited says whether a caller still waits for the batch.
func awaited(batch []*call) bool {
	return slices.ContainsFunc(batch, func(c *call) bool { return c.ctx.Err() == nil })
}

// try returns the calls of the batch, those that came to it included, and how many of them the error is about: for nil
// those that are committed.
func (q *sequencer) try(batch []*call, open bool) (_ []*call, n int, err error) {
	ctx := q.s.batchCtx
	if err := q.s.Err(); err != nil {
		//nolint:errorlint // this outcome is known
		err = fmt.Errorf("%w: the store has stopped writing: %v", ErrUnavailable, err)
		return batch, len(batch), err
	}
	tx, e, err := q.begin(ctx, batch)
	if err != nil {
		if errors.Is(err, backend.ErrTooManyRows) {
			if len(batch) > 1 {
				return batch, len(batch), fmt.Errorf("%w: %w", backend.ErrRejected, err) // find the one to blame
			}
			return batch, len(batch), fmt.Errorf("%w: %w", ErrTxnTooLarge, err)
		}
		return batch, len(batch), fmt.Errorf("begin batch: %w", err)
	}
	if open && q.s.replica != nil && e.indexed() {
		batch = q.queue.join(batch, q.most())
	}
	n = e.run(batch)
	return batch, n, q.finish(ctx, tx, e, batch[:n])
}

// batchRows is how many rows a batch looks at or writes; the call that reaches it is the last. All calls wait for the
// whole batch, other replicas for the clock, and ranges over what the batch itself has written take longer with each
// of its rows.
const batchRows = 10_000

// run evaluates the calls up to the bound of a batch, and returns how many those are. Where the rows that the calls
// need were loaded for all of them the bound is [Config.TxnRows]: the rest would have to load theirs again.
func (e *evaluator) run(batch []*call) int {
	for i, c := range batch {
		e.begin()
		if c.err = c.ctx.Err(); c.err == nil {
			c.err = c.op.evaluate(e)
		}
		if c.err != nil {
			e.abort()
		}
		c.rev = e.end()
		if e.indexed() && e.looked+len(e.rows) >= batchRows {
			return i + 1
		}
	}
	return len(batch)
}

// finish commits and publishes what the calls, which are evaluated, do.
func (q *sequencer) finish(ctx context.Context, tx backend.Tx, e *evaluator, batch []*call) error {
	if e.split {
		tx.Rollback()
		return backend.ErrRejected
	}
	if r := q.s.replica; r != nil && !r.steady(e) {
		tx.Rollback()
		return fmt.Errorf("%w: %w: the index was replaced meanwhile", backend.ErrConflict, ErrUnavailable)
	}
	if !e.changed() {
		return q.unchanged(ctx, tx, e)
	}
	e.effects.Rows = q.room(len(e.rows))
	defer clear(e.effects.Rows)
	if r := q.s.replica; r != nil {
		defer r.departs(e.from)()
	}
	stats, err := q.write(ctx, tx, e, batch)
	if err != nil {
		return err
	}
	q.observe(ctx, e, stats)
	return nil
}

// changed says whether the batch did anything that is to be committed.
func (e *evaluator) changed() bool {
	fx := &e.effects
	return len(e.rows) > 0 || fx.Compacted != 0 ||
		len(fx.Granted)+len(fx.Ending)+len(fx.Revoked)+len(fx.Raised)+len(fx.Cleared) > 0
}

// write commits the effects of a batch, whose rows have room already, and describes it.
func (q *sequencer) write(ctx context.Context, tx backend.Tx, e *evaluator, batch []*call) (Batch, error) {
	fx := &e.effects
	fx.Revision, fx.Batch = e.rev, rand.Int64()|1
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

// observe makes a batch that is committed visible, and reports it.
func (q *sequencer) observe(ctx context.Context, e *evaluator, stats Batch) {
	if r := q.s.replica; r != nil {
		r.contact.made(time.Now())
		r.hint(e.effects.Revision, e.effects.Compacted)
	}
	q.reach(ctx, e)
	q.s.noteFault(nil)
	q.s.publish(e)
	if o := q.s.cfg.Observer; o != nil {
		o.Batch(stats)
	}
}

// reach publishes what others committed before a batch, so that its answers follow it. Where that cannot be read now,
// the tail publishes it later on, and the batch with it.
func (q *sequencer) reach(ctx context.Context, e *evaluator) {
	r := q.s.replica
	if r == nil {
		return
	}
	if err := r.reach(ctx, e.from); err != nil {
		q.s.cfg.Logger.Warn("what other replicas wrote before a batch cannot be read yet", "error", err)
	}
}

// rowsKept bounds the room for rows that is kept for the next batch.
const rowsKept = 4096

// room returns room for the rows of one batch.
func (q *sequencer) room(n int) []Row {
	if n > rowsKept {
		return make([]Row, n)
	}
	if cap(q.rows) < n {
		q.rows = make([]Row, 0, max(n, 2*cap(q.rows)))
	}
	return q.rows[:n]
}
