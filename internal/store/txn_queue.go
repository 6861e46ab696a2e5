package store

import (
	"math"
	"slices"
	"sync"
)

// queue holds the operations that wait for the sequencer. All of them are under way at once, so their order is free:
// those that look at many keys wait in a line of their own, for the others not to wait for all of them. It has half of
// the queue's room, for them not to take everybody's.
//
// Leases that have ended pass that line, if they have many keys: clients keep it long for as long as they like, and the
// finding that a lease has ended does not hold for long (see expiryFresh).
type queue struct {
	mostCalls int
	mostBytes int64
	wake      chan struct{} // capacity 1

	mu       sync.Mutex
	short    line
	long     line
	ended    line // long ones, too
	tookLong bool // the last batch had long ones
	closed   bool
	batch    []*call // under way
	// Calls that are to join the long line; see expect.
	coming      int
	comingBytes int64
}

// line is calls in the order in which they came.
type line struct {
	calls []*call
	left  int   // of calls: their callers have gone
	bytes int64 // of those that have not left
}

func (l *line) length() int { return len(l.calls) - l.left }

// longBatch is how many keys the operations of a long line look at in one batch; the one that reaches it is the last.
const longBatch = 10_000

func newQueue(calls int, bytes int64) *queue {
	return &queue{mostCalls: calls, mostBytes: bytes, wake: make(chan struct{}, 1)}
}

// add puts c at the end of its line. Errors: [ErrClosed], [ErrTooManyRequests].
func (q *queue) add(c *call) error {
	q.mu.Lock()
	n, l := q.length(), q.line(c)
	switch {
	case q.closed:
		q.mu.Unlock()
		return ErrClosed
	case q.full(c.bytes), l == &q.long && q.longFull(c.bytes):
		q.mu.Unlock()
		return ErrTooManyRequests
	}
	l.calls = append(l.calls, c)
	c.queued = true
	l.bytes += c.bytes
	q.mu.Unlock()
	if n == 0 {
		q.rouse()
	}
	return nil
}

// expect counts a call that waits for something else before it joins the long line: its request takes up memory
// already. Whoever calls it calls came when the wait is over. Errors: [ErrClosed], [ErrTooManyRequests].
func (q *queue) expect(bytes int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case q.full(bytes), q.longFull(bytes):
		return ErrTooManyRequests
	}
	q.coming++
	q.comingBytes += bytes
	return nil
}

// came ends what expect began.
func (q *queue) came(bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.coming--
	q.comingBytes -= bytes
}

// full says whether there is no room for a call of so many bytes. Callers hold mu.
func (q *queue) full(bytes int64) bool {
	waiting := q.short.bytes + q.long.bytes + q.ended.bytes + q.comingBytes
	return full(q.length()+q.coming, q.mostCalls, waiting+bytes, q.mostBytes)
}

// longFull says whether there is none in the long line's part. Callers hold mu.
func (q *queue) longFull(bytes int64) bool {
	return full(q.long.length()+q.coming, max(1, q.mostCalls/2), q.long.bytes+q.comingBytes+bytes, q.mostBytes/2)
}

// full says whether a call finds no room behind so many others, with which it would make so many bytes. One that is
// alone does.
func full(calls, mostCalls int, bytes, mostBytes int64) bool {
	return calls >= mostCalls || bytes > mostBytes && calls > 0
}

func (q *queue) rouse() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) line(c *call) *line {
	switch {
	case c.keys <= longRead:
		return &q.short
	case c.ended:
		return &q.ended
	}
	return &q.long
}

// length counts the calls that have not left. Callers hold mu.
func (q *queue) length() int {
	return q.short.length() + q.long.length() + q.ended.length()
}

// leave gives c's place to another, if it still has one.
func (q *queue) leave(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.queued {
		return
	}
	c.queued = false
	l := q.line(c)
	l.bytes -= c.bytes
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
	waits := q.long.length()+q.ended.length() > 0
	if q.tookLong = waits && !(q.tookLong && len(batch) > 0); q.tookLong {
		batch = q.move(&q.ended, batch, bytes, longBatch)
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
	l.drop(n)
	return batch
}

// drop removes the first n calls of l. Callers hold mu.
func (l *line) drop(n int) {
	for _, c := range l.calls[:n] {
		if c.queued {
			c.queued, l.bytes = false, l.bytes-c.bytes
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
	l.drop(n)
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
