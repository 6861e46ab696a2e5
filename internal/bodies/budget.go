// Package bodies limits the memory that HTTP request bodies take while they arrive.
//
// Small bodies are always read: each costs little more than its connection. Larger ones share a [Budget]. Clients that
// announce much and send nothing would fill it, so a slow body is dropped when others wait for room.
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
	// Small is the size up to which a body needs no room in a budget, as most do.
	Small = 64 << 10
	// budgetBytes is the size of a budget, unless the largest bodies need more. The parsed form of bodies comes on top,
	// for as long as it is in use.
	budgetBytes = 64 << 20
	// leastBodies is how many of the largest bodies always fit.
	leastBodies = 4
	// waitTimeout is how long an unread body waits for others to finish.
	waitTimeout = 3 * time.Second
	// graceShare is the share of its time that a body keeps while others wait for its room: 10 seconds of a minute.
	graceShare = 6
)

var (
	// ErrFull is returned if there is no room for a body and none becomes free.
	ErrFull = errors.New("too many large bodies are being read")
	// ErrSlow is returned for a body that took too long to arrive.
	ErrSlow = errors.New("the body took too long to arrive")
)

// Budget is the memory that large bodies share.
type Budget struct {
	room    *semaphore.Weighted
	timeout time.Duration

	mu     sync.Mutex
	coming []*entry // in order of admission
}

// entry is a body of n bytes that is being read.
type entry struct {
	bytes int64
	since time.Time
	abort func()
}

// NewBudget makes a budget for bodies of up to largest bytes, each of which has timeout to arrive.
func NewBudget(largest int64, timeout time.Duration) *Budget {
	return &Budget{room: semaphore.NewWeighted(max(budgetBytes, leastBodies*largest)), timeout: timeout}
}

// Enter waits for room for a body of n bytes, which the caller then reads. Call came when the read has ended, whatever
// its result, and release to give the room back; each may be called twice. If others wait and the body is slow, Enter
// calls abort, which must end the read. Errors: [ErrFull], also when ctx ends.
func (b *Budget) Enter(ctx context.Context, n int64, abort func()) (came, release func(), err error) {
	if err := b.acquire(ctx, n); err != nil {
		return nil, nil, err
	}
	e := &entry{bytes: n, since: time.Now(), abort: abort}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming = append(b.coming, e)
	came = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.coming = slices.DeleteFunc(b.coming, func(o *entry) bool { return o == e })
	}
	return came, sync.OnceFunc(func() {
		came()
		b.room.Release(n)
	}), nil
}

func (b *Budget) acquire(ctx context.Context, n int64) error {
	if b.room.TryAcquire(n) {
		return nil
	}
	if later := b.giveWay(n); later > 0 {
		defer time.AfterFunc(later, func() { b.giveWay(n) }).Stop()
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if b.room.Acquire(ctx, n) != nil {
		return ErrFull
	}
	return nil
}

// giveWay ends the reading of as many bodies as make up n bytes, the oldest first, if they had their time. If these are
// not enough, it returns how long the next one has left.
func (b *Budget) giveWay(n int64) (later time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.coming) > 0 && n > 0 {
		e := b.coming[0]
		if later := b.timeout/graceShare - time.Since(e.since); later > 0 {
			return later
		}
		e.abort()
		n -= e.bytes
		b.coming = slices.Delete(b.coming, 0, 1) // it makes room only once
	}
	return 0
}
