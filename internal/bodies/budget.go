// Package bodies limits the memory that HTTP request bodies take while they arrive.
//
// Small bodies are always read, and so are the beginnings of others: each costs little more than its connection. Larger
// ones share a [Budget]. Clients that send much and then nothing would fill it, so a slow body is dropped when others
// wait for capacity.
package bodies

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// Small is the size up to which a body needs no capacity in a budget, as most do.
	Small = 64 << 10
	// budgetBytes is the size of a budget, unless the largest bodies need more. The parsed form of bodies comes on top,
	// for as long as it is in use.
	budgetBytes = 64 << 20
	// leastBodies is how many of the largest bodies always fit.
	leastBodies = 4
	// waitTimeout is how long an unread body waits for others to finish.
	waitTimeout = 3 * time.Second
	// graceShare and stallShare are the shares of its time that a body has to arrive while others wait for its
	// capacity, and that it may send nothing: 10 seconds and one of a minute.
	graceShare, stallShare = 6, 60
)

var (
	// ErrFull is returned if there is no capacity for a body and none becomes free.
	ErrFull = errors.New("too many large bodies are being read")
	// ErrSlow is returned for a body that took too long to arrive.
	ErrSlow = errors.New("the body took too long to arrive")
)

// Budget is the memory that large bodies share.
type Budget struct {
	capacity *semaphore.Weighted
	timeout  time.Duration

	mu       sync.Mutex
	arriving []*Reservation
}

// Reservation is the capacity of a body that is being read.
type Reservation struct {
	of    *Budget
	bytes int64
	abort func()
	since time.Time

	read    int64     // bytes, under the budget's mutex
	last    time.Time // when some of them arrived, likewise
	release func()
}

// NewBudget makes a budget for bodies of up to largest bytes, each of which has timeout to arrive.
func NewBudget(largest int64, timeout time.Duration) *Budget {
	return &Budget{capacity: semaphore.NewWeighted(max(budgetBytes, leastBodies*largest)), timeout: timeout}
}

// Reserve waits for capacity for a body of n bytes, which the caller then reads. If others wait and the body is slow,
// it calls abort, which must end the read. Errors: [ErrFull], also when ctx ends.
func (b *Budget) Reserve(ctx context.Context, n int64, abort func()) (*Reservation, error) {
	if err := b.acquire(ctx, n); err != nil {
		return nil, err
	}
	now := time.Now()
	p := &Reservation{of: b, bytes: n, abort: abort, since: now, last: now}
	p.release = sync.OnceFunc(func() { b.capacity.Release(n) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arriving = append(b.arriving, p)
	return p, nil
}

// Received records that n bytes of the body have arrived.
func (p *Reservation) Received(n int) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if n > 0 {
		p.read, p.last = p.read+int64(n), time.Now()
	}
}

// Arrived ends the reading, whatever its result. It may be called twice.
func (p *Reservation) Arrived() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.arriving = slices.DeleteFunc(p.of.arriving, func(o *Reservation) bool { return o == p })
}

// Release releases the capacity. It may be called twice.
func (p *Reservation) Release() {
	p.Arrived()
	p.release()
}

// due is when the body must be evicted: it sends nothing, or is behind what it takes to arrive in time. Callers hold
// the budget's mutex.
func (p *Reservation) due() time.Time {
	grace, stall := p.of.timeout/graceShare, p.of.timeout/stallShare
	expected := stall + time.Duration(float64(grace-stall)*min(1, float64(p.read)/float64(p.bytes)))
	behind, stalled := p.since.Add(expected), p.last.Add(stall)
	if stalled.Before(behind) {
		return stalled
	}
	return behind
}

func (b *Budget) acquire(ctx context.Context, n int64) error {
	if b.capacity.TryAcquire(n) {
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
		if missing, later = b.evict(missing); later > 0 {
			time.AfterFunc(later, evict)
		}
	}
	evict()
	if b.capacity.Acquire(ctx, n) != nil {
		return ErrFull
	}
	return nil
}

// evict ends the reading of as many bodies as make up n bytes, the most overdue first. If these are not enough, it
// returns how many bytes are missing, and how long the next one has left.
func (b *Budget) evict(n int64) (missing int64, later time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.arriving) > 0 && n > 0 {
		p := slices.MinFunc(b.arriving, func(x, y *Reservation) int { return x.due().Compare(y.due()) })
		if later := time.Until(p.due()); later > 0 {
			return n, later
		}
		p.abort()
		n -= p.bytes
		// it frees capacity only once
		b.arriving = slices.DeleteFunc(b.arriving, func(o *Reservation) bool { return o == p })
	}
	return n, 0
}
