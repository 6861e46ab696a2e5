package store

import (
	"math"
	"slices"
	"sync"
)

// queue holds the operations that wait for the sequencer. They are all concurrent, so their order is free. Operations
// that scan many keys wait in a separate long line, so that the others do not wait for all of them. The long line
// has half of the queue's capacity, so that it does not starve the others.
//
// Revocations of ended leases with many keys pass the long line: clients can keep that line long indefinitely, and the
// finding that a lease has ended soon expires (see expiryFresh).
type queue struct {
	mostCalls int
	mostBytes int64
	wake      chan struct{} // capacity 1

	mu         sync.Mutex
	short      line
	long       line
	ended      line // revocations of ended leases; long, too
	servedLong bool // the last batch had long operations
	closed     bool
	batch      []*call // under way
	// Calls that will join the long line; see reserve.
	reserved      int
	reservedBytes int64
}

// line is a list of calls in order of arrival.
type line struct {
	calls     []*call
	abandoned int   // how many of calls are abandoned: their callers are gone
	bytes     int64 // of the calls that are not abandoned
}

func (l *line) length() int { return len(l.calls) - l.abandoned }

// longBatch is how many keys the operations dequeued from one of the long lines scan in one batch; the operation that
// reaches it is the last.
const longBatch = 10_000

func newQueue(calls int, bytes int64) *queue {
	return &queue{mostCalls: calls, mostBytes: bytes, wake: make(chan struct{}, 1)}
}

// enqueue appends c to its line. Errors: [ErrClosed], [ErrTooManyRequests].
func (q *queue) enqueue(c *call) error {
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
		q.signal()
	}
	return nil
}

// reserve counts a call that waits for something else before it joins the long line, because its request takes up
// memory already. The caller must call release when that wait is over. Errors: [ErrClosed], [ErrTooManyRequests].
func (q *queue) reserve(bytes int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case q.full(bytes), q.longFull(bytes):
		return ErrTooManyRequests
	}
	q.reserved++
	q.reservedBytes += bytes
	return nil
}

// release ends what reserve began: the call joins the long line or gives up.
func (q *queue) release(bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reserved--
	q.reservedBytes -= bytes
}

// full reports whether there is no capacity for another call of so many bytes. Callers hold mu.
func (q *queue) full(bytes int64) bool {
	waiting := q.short.bytes + q.long.bytes + q.ended.bytes + q.reservedBytes
	return full(q.length()+q.reserved, q.mostCalls, waiting+bytes, q.mostBytes)
}

// longFull reports whether there is no capacity in the long line's share. Callers hold mu.
func (q *queue) longFull(bytes int64) bool {
	return full(q.long.length()+q.reserved, max(1, q.mostCalls/2), q.long.bytes+q.reservedBytes+bytes, q.mostBytes/2)
}

// full reports whether there is no capacity for another call, given the number of calls that wait and the bytes
// including the new call. The only call is always accepted, whatever its size.
func full(calls, mostCalls int, bytes, mostBytes int64) bool {
	return calls >= mostCalls || bytes > mostBytes && calls > 0
}

func (q *queue) signal() {
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

// length counts the calls that are not abandoned. Callers hold mu.
func (q *queue) length() int {
	return q.short.length() + q.long.length() + q.ended.length()
}

// abandon removes c from the queue, if it is still there, and frees its capacity.
func (q *queue) abandon(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !c.queued {
		return
	}
	c.queued = false
	l := q.line(c)
	l.bytes -= c.bytes
	if l.abandoned++; l.abandoned > len(l.calls)/2 { // so that abandoned calls use no more memory than those that wait
		l.calls = slices.DeleteFunc(l.calls, func(c *call) bool { return !c.queued })
		l.abandoned = 0
	}
}

// dequeue waits for operations and returns the next batch, or nil if the queue is closed and empty. From each line it
// dequeues operations until they reach bytes. Every other batch also has long operations, after the short ones. So a
// short operation waits for the long ones of at most one batch, and long ones wait for one batch of short ones.
func (q *queue) dequeue(bytes int64) []*call {
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
	if q.servedLong = waits && !(q.servedLong && len(batch) > 0); q.servedLong {
		batch = q.move(&q.ended, batch, bytes, longBatch)
		batch = q.move(&q.long, batch, bytes, longBatch)
	}
	q.batch = batch
	return batch
}

// move appends the first calls of l to batch until they reach bytes or keys. Callers hold mu.
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
			l.abandoned--
		}
	}
	left := copy(l.calls, l.calls[n:])
	clear(l.calls[left:])
	l.calls = l.calls[:left]
}

// join adds the short operations that arrived while the batch waited for the clock, which is most of a batch's time if
// there are several replicas. An operation that names a lease must be in a batch from the start, so it stays, and those
// after it stay with it.
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
		if !c.left.Load() {
			batch, bytes = append(batch, c), bytes-c.bytes
		}
	}
	l.drop(n)
	return batch
}

// size returns the bytes of the batch's operations.
func size(batch []*call) (n int64) {
	for _, c := range batch {
		n += c.bytes
	}
	return n
}

// waiting returns the number of operations in the queue.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.length()
}

// close makes the queue refuse further operations. Those in it can still be dequeued.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}
