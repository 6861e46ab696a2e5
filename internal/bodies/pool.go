package bodies

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// waitTimeout is how long an unread body waits for others to finish.
	waitTimeout = 3 * time.Second
	// graceShare and stallShare are the shares of its time that a body has to arrive while others wait for its
	// capacity, and that it may send nothing: 10 seconds and one of a minute.
	graceShare, stallShare = 6, 60
)

// pool is memory that bodies share.
type pool struct {
	capacity *semaphore.Weighted
	timeout  time.Duration

	mu       sync.Mutex
	arriving []*claim
}

// claim is the capacity of a body that is being read.
type claim struct {
	of    *pool
	bytes int64
	abort func()
	since time.Time

	read    int64     // bytes, under the pool's mutex
	last    time.Time // when some of them arrived, likewise
	release func()
}

// newPool makes a pool for bodies that have timeout to arrive.
func newPool(capacity int64, timeout time.Duration) *pool {
	return &pool{capacity: semaphore.NewWeighted(capacity), timeout: timeout}
}

// reserve waits for capacity for a body of n bytes, which the caller then reads. If others wait and the body is slow,
// it calls abort, which must end the read. Errors: [ErrFull], also when ctx ends.
func (q *pool) reserve(ctx context.Context, n int64, abort func()) (*claim, error) {
	if err := q.acquire(ctx, n); err != nil {
		return nil, err
	}
	now := time.Now()
	p := &claim{of: q, bytes: n, abort: abort, since: now, last: now}
	p.release = sync.OnceFunc(func() { q.capacity.Release(n) })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arriving = append(q.arriving, p)
	return p, nil
}

// received records that n bytes of the body have arrived.
func (p *claim) received(n int) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if n > 0 {
		p.read, p.last = p.read+int64(n), time.Now()
	}
}

// arrived ends the reading, whatever its result. It may be called twice.
func (p *claim) arrived() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.arriving = slices.DeleteFunc(p.of.arriving, func(o *claim) bool { return o == p })
}

// free releases the capacity. It may be called twice.
func (p *claim) free() {
	p.arrived()
	p.release()
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

func (q *pool) acquire(ctx context.Context, n int64) error {
	if q.capacity.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	var evict func()
	missing := n
	evict = func() {
		if ctx.Err() != nil {
			return
		}
		var later time.Duration
		if missing, later = q.evict(missing); later > 0 {
			time.AfterFunc(later, evict)
		}
	}
	evict()
	if q.capacity.Acquire(ctx, n) != nil {
		return ErrFull
	}
	return nil
}

// evict ends the reading of as many bodies as make up n bytes, the most overdue first. If these are not enough, it
// returns how many bytes are missing, and how long the next one has left.
func (q *pool) evict(n int64) (missing int64, later time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.arriving) > 0 && n > 0 {
		p := slices.MinFunc(q.arriving, func(x, y *claim) int { return x.due().Compare(y.due()) })
		if later := time.Until(p.due()); later > 0 {
			return n, later
		}
		p.abort()
		n -= p.bytes
		// it frees capacity only once
		q.arriving = slices.DeleteFunc(q.arriving, func(o *claim) bool { return o == p })
	}
	return n, 0
}
