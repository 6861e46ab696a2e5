package store

import (
	"math"
	"slices"
	"sync"
)

// queue holds the operations that wait for the sequencer. All of them are under way at once, so their order is free:
// those that look at many keys wait in a line of their own, for the others not to wait for all of them.
type queue struct {
	mostCalls int
	mostBytes int64
	wake      chan struct{} // capacity 1

	mu          sync.Mutex
	short, long line
	tookLong    bool  // the last batch had long ones
	bytes       int64 // of those that have not left
	closed      bool
	batch       []*call // under way
}

// line is calls in the order in which they came.
type line struct {
	calls []*call
	left  int // of calls: their callers have gone
}

// longBatch is how many keys the long operations of one batch look at; the one that reaches it is the last.
const longBatch = 10_000

func newQueue(calls int, bytes int64) *queue {
	return &queue{mostCalls: calls, mostBytes: bytes, wake: make(chan struct{}, 1)}
}

// add puts c at the end of its line. Errors: [ErrClosed], [ErrTooManyRequests].
func (q *queue) add(c *call) error {
	q.mu.Lock()
	n := q.length()
	switch {
	case q.closed:
		q.mu.Unlock()
		return ErrClosed
	case n >= q.mostCalls || q.bytes+c.bytes > q.mostBytes && n > 0:
		q.mu.Unlock()
		return ErrTooManyRequests
	}
	l := q.line(c)
	l.calls = append(l.calls, c)
	c.queued = true
	q.bytes += c.bytes
	q.mu.Unlock()
	if n == 0 {
		q.rouse()
	}
	return nil
}

func (q *queue) rouse() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) line(c *call) *line {
	if c.keys > longRead {
		return &q.long
	}
	return &q.short
}

// length counts the calls that have not left. Callers hold mu.
func (q *queue) length() int {
	return len(q.short.calls) - q.short.left + len(q.long.calls) - q.long.left
}

// leave gives c's place to another, if it still has one.
func (q *queue) leave(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.queued {
		return
	}
	c.queued = false
	q.bytes -= c.bytes
	l := q.line(c)
	if l.left++; l.left > len(l.calls)/2 { // so that what has left takes no more room than what waits
		l.calls = slices.DeleteFunc(l.calls, func(c *call) bool { return !c.queued })
		l.left = 0
	}
}

// take waits for operations and returns the next batch, nil when the queue is closed and empty. Of each line it takes
// operations up to the one at which they reach bytes. Every other batch has long ones, too, behind the short ones: a
// short one waits for the long ones of one batch, and those for one batch of short ones.
func (q *queue) take(bytes int64) []*call {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.length() == 0 {
		if q.closed {
			return nil
		}
		q.mu.Unlock()
		<-q.wake
		q.mu.Lock()
	}
	batch := q.move(&q.short, q.batch[:0], bytes, math.MaxInt64)
	if q.tookLong = len(q.long.calls) > 0 && !(q.tookLong && len(batch) > 0); q.tookLong {
		batch = q.move(&q.long, batch, bytes, longBatch)
	}
	q.batch = batch
	return batch
}

// move appends the first calls of l to batch, until they reach bytes or keys. Callers hold mu.
func (q *queue) move(l *line, batch []*call, bytes, keys int64) []*call {
	n := 0
	for ; n < len(l.calls) && bytes > 0 && keys > 0; n++ {
		c := l.calls[n]
		if !c.queued {
			continue
		}
		bytes, keys = bytes-c.bytes, keys-int64(c.keys)
		batch = append(batch, c)
	}
	q.drop(l, n)
	return batch
}

// drop removes the first n calls of l. Callers hold mu.
func (q *queue) drop(l *line, n int) {
	for _, c := range l.calls[:n] {
		if c.queued {
			c.queued, q.bytes = false, q.bytes-c.bytes
		} else {
			l.left--
		}
	}
	left := copy(l.calls, l.calls[n:])
	clear(l.calls[left:])
	l.calls = l.calls[:left]
}

// join adds the short operations that came while the clock was waited for: with several replicas most of a batch's
// time. One that names a lease has to be in the batch from its beginning, and those behind it wait with it.
func (q *queue) join(batch []*call, bytes int64) []*call {
	bytes -= size(batch)
	q.mu.Lock()
	defer q.mu.Unlock()
	l, n := &q.short, 0
	for ; n < len(l.calls) && bytes > 0; n++ {
		c := l.calls[n]
		if !c.queued {
			continue
		}
		if l, ok := c.op.(leasing); ok && len(l.leases(nil)) > 0 {
			break
		}
		if c.ctx.Err() == nil {
			batch, bytes = append(batch, c), bytes-c.bytes
		}
	}
	q.drop(l, n)
	return batch
}

// size is the bytes of the batch's operations.
func size(batch []*call) (n int64) {
	for _, c := range batch {
		n += c.bytes
	}
	return n
}

// waiting counts the operations in the queue.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.length()
}

// close refuses further operations.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.rouse()
}
