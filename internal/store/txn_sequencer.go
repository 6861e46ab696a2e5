package store

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// operation is one request for the sequencer.
type operation interface {
	// needs adds what evaluate will read, for use while the index is not complete.
	needs(n *backend.Needs)
	// evaluate runs the operation on e and keeps its result. It may be called again, on another state, if a batch is
	// split.
	evaluate(e *evaluator) error
	// size returns roughly how many bytes the operation holds while it waits.
	size() int64
}

// scanning is an operation that may scan more keys than it names.
type scanning interface {
	// keysScanned returns roughly how many.
	keysScanned(x *index.Index) int64
}

// call is an operation on its way through the sequencer.
type call struct {
	// The caller's context. Once it has ended, the operation is not evaluated, unless it has been already.
	ctx  context.Context
	op   operation
	rev  int64 // the store's revision after the operation
	err  error
	done chan struct{}

	waits *batchWait // nil if its request is not recorded

	bytes  int64 // size of the operation
	keys   int32 // roughly how many it scans without naming them
	ended  bool  // it revokes a lease that has ended
	queued bool  // guarded by queue.mu
	// left is set once the caller is gone. It costs less to read than the state of ctx, which is a chain of objects in
	// the cache of another processor.
	left atomic.Bool
}

func (s *Store) newCall(ctx context.Context, op operation) *call {
	c := &call{ctx: ctx, op: op, done: make(chan struct{}), bytes: op.size()}
	if l, ok := op.(scanning); ok {
		c.keys = int32(min(l.keysScanned(s.index), math.MaxInt32))
	}
	if o, ok := op.(*revokeOperation); ok {
		c.ended = o.expired
	}
	return c
}

// sequencer orders all writes. One goroutine dequeues the waiting operations (see queue), evaluates them in order in
// memory, commits all their rows in one database transaction under the clock, publishes them and answers the callers.
// The next batch fills in the meantime. So commit order is revision order, revisions have no gaps, and one fsync serves
// the whole batch.
//
// Nothing is published or answered before the commit has returned. A commit of unknown outcome is not repeated: its
// callers get the error. If this process is the only writer, the store then stops writing (see Store.Done), since only
// a restart can read what happened. If there are other writers, the next batch reads the outcome once it holds the
// clock, in the same way as it reads what the others did.
type sequencer struct {
	s       *Store
	queue   *queue
	pace    pace
	stopped chan struct{}
	rows    []Row // of the batch under way
	rights  bool  // the rows that were loaded for it include those that decide about rights
}

func newSequencer(s *Store) *sequencer {
	return &sequencer{
		s: s, queue: newQueue(s.cfg.QueueRequests, s.cfg.QueueBytes), pace: newPace(),
		stopped: make(chan struct{}),
	}
}

// do queues op and waits for its result. Errors: [ErrTooManyRequests] if the queue is full, [ErrClosed], ctx's error
// (the operation may still be applied), and those of the operation and the backend.
func (q *sequencer) do(ctx context.Context, op operation) (rev int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := q.s.newCall(ctx, op)
	c.waits = awaitBatch(ctx, q.s.cfg.Tracer)
	if err := q.queue.enqueue(c); err != nil {
		c.waits.end(err)
		return 0, err
	}
	select {
	case <-c.done:
		return c.rev, c.err
	case <-ctx.Done():
		c.left.Store(true)
		q.queue.abandon(c)
		c.waits.end(ctx.Err())
		return 0, ctx.Err()
	}
}

func (q *sequencer) run() {
	defer close(q.stopped)
	for {
		batch := q.queue.dequeue(q.s.peers.most())
		if batch == nil {
			return
		}
		retained := batch[:0]
		for _, c := range batch {
			if !c.left.Load() {
				retained = append(retained, c)
			}
		}
		q.commit(retained, true)
		clear(batch[:cap(batch)]) // calls that joined are beyond its length
	}
}

// close makes the queue refuse further operations and waits until those in it are answered.
func (q *sequencer) close() {
	q.queue.close()
	<-q.stopped
}

// conflictTries is how often a batch is tried if it gives way to another database transaction, or waits for the clock
// in vain: about 15 s in all, while a caller still waits. Client requests end earlier, by their own timeouts. What the
// store itself does, such as revoking leases, would only have to start again.
const conflictTries = 3

// commit runs a batch and answers its calls. If open is set, further calls may join it.
func (q *sequencer) commit(batch []*call, open bool) {
	for len(batch) > 0 {
		batch, open = q.commitPart(batch, open), false
	}
}

// commitPart commits as much of the batch as one transaction takes, and returns the rest. If the database rejects the
// contents of a batch, it splits the batch until only the culprit fails.
func (q *sequencer) commitPart(batch []*call, open bool) (rest []*call) {
	batch, n, err := q.try(batch, open)
	for tries := 1; isConflict(err) && tries < conflictTries && awaited(batch); tries++ {
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
		q.s.peers.doubt(err)
	}
	if err != nil {
		q.s.noteFault(err)
	}
	for _, c := range batch {
		if err != nil {
			c.err = err
		}
		if isConflict(err) && c.ctx.Err() != nil {
			c.err = c.ctx.Err() // the batch ran out of tries, or was not tried again, without this caller
		}
		close(c.done)
	}
	return rest
}

// isConflict reports whether err means that nothing is wrong with the batch and nothing of it has happened: another
// transaction came first.
func isConflict(err error) bool {
	return !errors.Is(err, backend.ErrUnknownOutcome) &&
		(errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrClockHeld))
}

// awaited reports whether a caller still waits for the batch.
func awaited(batch []*call) bool {
	return slices.ContainsFunc(batch, func(c *call) bool { return c.ctx.Err() == nil })
}
