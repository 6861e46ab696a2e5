// Package bodies bounds the memory that the bodies of HTTP requests take while they come.
//
// Small bodies are read whatever else is being read: each costs little more than its connection. Longer ones share a
// [Budget]. Clients that announce much and send nothing would fill it, so a body that is long in coming gives way to
// those that wait for room.
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
	// Small is how long a body may be that needs no room in a budget: most are no longer.
	Small = 64 << 10
	// budgetBytes is the room of a budget, unless the largest bodies need more. What bodies are parsed into comes on
	// top, for as long as that takes.
	budgetBytes = 64 << 20
	// leastBodies is how many of the largest bodies have room, however large they may be.
	leastBodies = 4
	// patience is how long a body waits for others to be done with, unread.
	patience = 3 * time.Second
	// graceShare is the part of the time for a body that it has while others wait for its room: 10 seconds of a minute.
	graceShare = 6
)

var (
	// ErrFull is returned when there is no room for a body and none becomes free.
	ErrFull = errors.New("too many large bodies are being read")
	// ErrSlow is returned for a body that took too long to come.
	ErrSlow = errors.New("the body took too long to come")
)

// Budget is the room that large bodies share.
type Budget struct {
	room    *semaphore.Weighted
	timeout time.Duration

	mu     sync.Mutex
	coming []*entry // in the order in which they were let in
}

// entry is a body of so many bytes that is being read.
type entry struct {
	bytes int64
	since time.Time
	abort func()
}

// NewBudget makes a budget for bodies of up to largest bytes, each of which may take so long to come.
func NewBudget(largest int64, timeout time.Duration) *Budget {
	return &Budget{room: semaphore.NewWeighted(max(budgetBytes, leastBodies*largest)), timeout: timeout}
}

// Enter waits for room for a body of n bytes, which is read from now on. came says that it has come, in whatever way,
// and release gives the room back; each may be called twice. When others wait and the body is long in coming, abort is
// called, which must end the reading. Errors: [ErrFull], also when ctx ends.
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if b.room.Acquire(ctx, n) != nil {
		return ErrFull
	}
	return nil
}

// giveWay ends the reading of as many bodies as have n bytes together, the oldest first, if they had their time. It
// returns how long the next one has, if these are not enough.
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
		b.coming = slices.Delete(b.coming, 0, 1) // it makes room once only
	}
	return 0
}
