package bodies

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// waitTimeout is how long an unread body waits for others while nothing arrives of them. While something does, it
	// waits for up to its timeout: they finish or are evicted.
	waitTimeout = 3 * time.Second
	// graceShare and stallShare are the shares of its time that a body has to arrive while others wait for its
	// capacity, and that it may send nothing: 10 seconds and one of a minute.
	graceShare, stallShare = 6, 60
)

// pool is memory that bodies share. Those without capacity wait in the order of their arrival.
type pool struct {
	timeout time.Duration

	mu       sync.Mutex
	free     int64    // bytes that no body has
	ending   int64    // bytes of evicted bodies, which will be free soon
	waiting  []*claim // for capacity, the oldest first
	arriving []*claim
	next     *time.Timer // for the next body to evict, nil before the first
}

// claim is the capacity of a body that is being read, or waits to be.
type claim struct {
	of       *pool
	bytes    int64
	abort    func()
	admitted chan struct{} // closed when it has its capacity

	// The pool's mutex covers the others.
	since   time.Time // of its admission
	read    int64     // bytes
	last    time.Time // when some of them arrived
	evicted bool
	freed   bool
}

// newPool makes a pool for bodies that have timeout to arrive.
func newPool(capacity int64, timeout time.Duration) *pool {
	return &pool{free: capacity, timeout: timeout}
}

// reserve waits for capacity for a body of n bytes, which the caller then reads. If others wait and the body is slow,
// it calls abort, which must end the read. Errors: [ErrFull], also when ctx ends.
func (q *pool) reserve(ctx context.Context, n int64, abort func()) (*claim, error) {
	p := &claim{of: q, bytes: n, abort: abort, admitted: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, p)
	q.update()
	q.mu.Unlock()
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	for began := time.Now(); ; timer.Reset(waitTimeout) {
		select {
		case <-p.admitted:
			return p, nil
		case <-ctx.Done():
		case <-timer.C:
		}
		if err := q.leave(p, ctx.Err() != nil || time.Since(began) >= q.timeout); err != nil {
			return nil, err
		}
	}
}

// leave ends the wait of a body, unless it has been admitted meanwhile. A body that need not leave now stays if others
// arrive. Errors: [ErrFull].
func (q *pool) leave(p *claim, now bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	others := slices.ContainsFunc(q.arriving, func(o *claim) bool { return time.Since(o.last) < waitTimeout })
	if !p.since.IsZero() || !now && others {
		return nil
	}
	q.waiting = without(q.waiting, p)
	q.update() // those behind it may fit
	return ErrFull
}

// received records that n bytes of the body have arrived.
func (p *claim) received(n int) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if n > 0 {
		p.read, p.last = p.read+int64(n), time.Now()
	}
}

// arrived ends the reading, whatever its result, and reports whether the body was evicted. It may be called twice.
func (p *claim) arrived() (evicted bool) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.arriving = without(p.of.arriving, p)
	return p.evicted
}

// release releases the capacity. It may be called twice.
func (p *claim) release() {
	q := p.of
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.freed {
		return
	}
	p.freed = true
	q.arriving = without(q.arriving, p)
	q.free += p.bytes
	if p.evicted {
		q.ending -= p.bytes
	}
	q.update()
}

// due is when the body must be evicted: it sends nothing, or is behind what it takes to arrive in time. Callers hold
// the pool's mutex.
func (p *claim) due() time.Time {
	grace, stall := p.of.timeout/graceShare, p.of.timeout/stallShare
	expected := stall + time.Duration(float64(grace-stall)*min(1, float64(p.read)/float64(p.bytes)))
	behind, stalled := p.since.Add(expected), p.last.Add(stall)
	if stalled.Before(behind) {
		return stalled
	}
	return behind
}

// update admits the bodies that fit, and evicts for the others. Callers hold the mutex.
func (q *pool) update() {
	for len(q.waiting) > 0 && q.waiting[0].bytes <= q.free {
		p := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.free -= p.bytes
		p.since = time.Now()
		p.last = p.since
		q.arriving = append(q.arriving, p)
		close(p.admitted)
	}
	missing := -q.free - q.ending
	for _, p := range q.waiting {
		missing += p.bytes
	}
	q.evict(missing)
}

// evict ends the reading of overdue bodies that make up n bytes, the most overdue first. If these are not enough, it
// continues when the next one is due. Callers hold the mutex.
func (q *pool) evict(n int64) {
	for n > 0 && len(q.arriving) > 0 {
		p := slices.MinFunc(q.arriving, func(x, y *claim) int { return x.due().Compare(y.due()) })
		if later := time.Until(p.due()); later > 0 {
			q.wake(later)
			return
		}
		p.abort()
		p.evicted = true
		q.arriving = without(q.arriving, p)
		q.ending += p.bytes
		n -= p.bytes
	}
}

// wake updates the pool later. Callers hold the mutex.
func (q *pool) wake(later time.Duration) {
	if q.next != nil {
		q.next.Stop()
	}
	q.next = time.AfterFunc(later, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.update()
	})
}

func without(all []*claim, p *claim) []*claim {
	return slices.DeleteFunc(all, func(o *claim) bool { return o == p })
}
