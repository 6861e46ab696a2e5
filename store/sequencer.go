package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// operation is one request for the sequencer.
type operation interface {
	// needs adds what evaluate will look at, for when the index is not complete.
	needs(n *backend.Needs)
	// evaluate runs the operation on e and keeps its answer. It may be called again, on another state, when a batch is split.
	evaluate(e *evaluator) error
	// size is roughly the bytes that the operation holds while it waits.
	size() int64
}

// call is an operation on its way through the sequencer.
type call struct {
	op   operation
	rev  int64 // the store's revision after the operation
	err  error
	left atomic.Bool // its caller has gone
	done chan struct{}
}

// sequencer orders all writes. One goroutine takes whatever operations are waiting, evaluates them in order in memory,
// commits all their rows in one database transaction under the clock, publishes them and answers the callers; the next
// batch fills meanwhile. So commit order is revision order, revisions have no gaps, and one fsync serves the batch.
//
// Nothing is published or answered before the commit has returned. A commit of unknown outcome is not repeated: its callers
// get the error. Where this process is the only one that writes, the store stops writing (see Store.Done), since only a restart can
// read what happened; where there are others, the next batch reads it like what they did, once it holds the clock.
type sequencer struct {
	s  *Store
	mu sync.Mutex

	waiting []*call
	bytes   int64
	closed  bool
	wake    chan struct{} // capacity 1
	stopped chan struct{}
	spare   []*call
	rows    []Row // of the batch under way
}

func newSequencer(s *Store) *sequencer {
	return &sequencer{s: s, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// do queues op and waits for its answer. Errors: [ErrTooManyRequests] when the queue is full, [ErrClosed], ctx's error (the
// operation may then still happen), and those of the operation and the backend.
func (q *sequencer) do(ctx context.Context, op operation) (rev int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := &call{op: op, done: make(chan struct{})}
	size := op.size()
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return 0, ErrClosed
	case len(q.waiting) >= q.s.cfg.QueueRequests || q.bytes+size > q.s.cfg.QueueBytes && len(q.waiting) > 0:
		q.mu.Unlock()
		return 0, ErrTooManyRequests
	}
	q.waiting = append(q.waiting, c)
	q.bytes += size
	first := len(q.waiting) == 1
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	select {
	case <-c.done:
		return c.rev, c.err
	case <-ctx.Done():
		c.left.Store(true)
		return 0, ctx.Err()
	}
}

// take returns the operations waiting, nil when the queue is closed and empty.
func (q *sequencer) take() []*call {
	for {
		q.mu.Lock()
		if len(q.waiting) > 0 {
			batch := q.waiting
			q.waiting, q.bytes = q.spare[:0], 0
			q.spare = batch
			q.mu.Unlock()
			return batch
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil
		}
		<-q.wake
	}
}

func (q *sequencer) run() {
	defer close(q.stopped)
	for batch := q.take(); batch != nil; batch = q.take() {
		kept := batch[:0]
		for _, c := range batch {
			if !c.left.Load() {
				kept = append(kept, c)
			}
		}
		q.commit(kept, true)
		clear(batch[:cap(batch)]) // those that joined are behind its end
	}
}

// waitingNow counts the operations in the queue.
func (q *sequencer) waitingNow() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// close refuses further operations and waits until those in the queue are answered.
func (q *sequencer) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	<-q.stopped
}

// conflictTries is how often a batch may give way to another transaction of the database.
const conflictTries = 3

// commit runs one batch, to which others may come where open says so, and answers its calls. A batch that the database refuses for
// its contents is split until only the culprit fails.
func (q *sequencer) commit(batch []*call, open bool) {
	if len(batch) == 0 {
		return
	}
	batch, err := q.try(batch, open)
	for tries := 1; errors.Is(err, backend.ErrConflict) && tries < conflictTries; tries++ {
		batch, err = q.try(batch, false)
	}
	unknown := errors.Is(err, backend.ErrUnknownOutcome)
	if errors.Is(err, backend.ErrRejected) && !unknown && len(batch) > 1 {
		half := len(batch) / 2
		q.commit(batch[:half], false)
		q.commit(batch[half:], false)
		return
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
}

// try returns the calls of the batch, those that came to it included.
func (q *sequencer) try(batch []*call, open bool) ([]*call, error) {
	ctx := q.s.ctx
	if err := q.s.Err(); err != nil {
		return batch, fmt.Errorf("%w: the store has stopped writing: %v", ErrUnavailable, err) //nolint:errorlint // this outcome is known
	}
	tx, e, err := q.begin(ctx, batch)
	if err != nil {
		if errors.Is(err, backend.ErrTooManyRows) {
			if len(batch) > 1 {
				return batch, fmt.Errorf("%w: %w", backend.ErrRejected, err) // find the one to blame
			}
			return batch, fmt.Errorf("%w: %w", ErrTxnTooLarge, err)
		}
		return batch, fmt.Errorf("begin batch: %w", err)
	}
	if open && q.s.follower != nil && e.loaded == nil {
		batch = q.join(batch)
	}
	return batch, q.finish(ctx, tx, e, batch)
}

// finish evaluates the calls and commits what they do.
func (q *sequencer) finish(ctx context.Context, tx backend.Tx, e *evaluator, batch []*call) error {
	for _, c := range batch {
		e.begin()
		if c.err = c.op.evaluate(e); c.err != nil {
			e.abort()
		}
		c.rev = e.end()
	}
	if e.split {
		tx.Rollback()
		return backend.ErrRejected
	}
	fx := &e.effects
	if len(e.rows) == 0 && fx.Compacted == 0 && len(fx.Granted)+len(fx.Revoked)+len(fx.Raised)+len(fx.Cleared) == 0 {
		tx.Rollback()
		return nil
	}
	fx.Revision, fx.Batch = e.rev, rand.Int64()|1
	fx.Rows = q.room(len(e.rows))
	defer clear(fx.Rows)
	told := Batch{Operations: len(batch), Granted: fx.Granted, Revoked: len(fx.Revoked)}
	for i, it := range e.rows {
		fx.Rows[i] = it.Row
		if it.Deleted {
			told.Deletes++
		}
		told.ValueBytes += int64(len(it.Value))
	}
	told.Puts = len(e.rows) - told.Deletes
	if f := q.s.follower; f != nil {
		fx.Quiet = f.alone()
		defer f.departs()()
	}
	began := time.Now()
	q.s.committing.Store(&began)
	err := tx.Commit(ctx, fx)
	q.s.committing.Store(nil)
	if err != nil {
		if !errors.Is(err, backend.ErrRejected) && !errors.Is(err, backend.ErrNoSpace) && !errors.Is(err, backend.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", backend.ErrUnknownOutcome, err)
		}
		return fmt.Errorf("commit %d rows: %w", len(fx.Rows), err)
	}
	told.Commit = time.Since(began)
	if f := q.s.follower; f != nil {
		f.contact.made(time.Now())
	}
	q.s.noteFault(nil)
	q.s.publish(e)
	if o := q.s.cfg.Observer; o != nil {
		o.Batch(told)
	}
	return nil
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
