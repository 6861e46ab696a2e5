package store

import (
	"context"
	"errors"
	"math"
	"slices"

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

func (q *sequencer) run() {
	defer close(q.stopped)
	for {
		batch := q.queue.take(q.s.peers.most())
		if batch == nil {
			return
		}
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
		q.s.peers.doubt(err)
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
