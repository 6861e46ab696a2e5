package restapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// smallBody is how long a body may be that is read whatever else is being read: most objects are no longer.
	smallBody = 64 << 10
	// bodiesBytes is how much longer bodies may hold together, from the first byte read until the request is answered. What JSON is parsed
	// into comes on top, for as long as that takes.
	bodiesBytes = 64 << 20
	// leastBodies is how many of the longest are let in, however long they may be.
	leastBodies = 4
	// bodyPatience is how long a body waits for others to be done with, unread.
	bodyPatience = 3 * time.Second
	// graceShare is the part of the time for a body that it has while others wait for its room: 10 seconds of a minute.
	graceShare = 6
)

var errBodies = failure(http.StatusTooManyRequests, reasonTooMany, "too many large bodies are being read: try again").retry(1)

// budget is the room that large bodies share. One that is long in coming gives way to those that wait, so that clients which announce much
// and send nothing keep nobody out for longer than that.
type budget struct {
	*semaphore.Weighted
	grace time.Duration

	mu     sync.Mutex
	coming []coming // in the order in which they were let in
}

// coming is a body of so many bytes that is being read.
type coming struct {
	call  *call
	bytes int64
	since time.Time
}

func newBudget(o *Options) *budget {
	return &budget{Weighted: semaphore.NewWeighted(max(bodiesBytes, leastBodies*o.putLimit())), grace: o.Timeout / graceShare}
}

// hold waits until n bytes of the server's budget are free, and takes them until the request is answered. Errors: 429.
func (c *call) hold(n int64) error {
	b := c.s.bodies
	if !b.TryAcquire(n) {
		if later := b.giveWay(n); later > 0 {
			defer time.AfterFunc(later, func() { b.giveWay(n) }).Stop()
		}
		ctx, cancel := context.WithTimeout(c.r.Context(), bodyPatience)
		defer cancel()
		if b.Acquire(ctx, n) != nil {
			return errBodies
		}
	}
	c.held += n
	return nil
}

// comes tells of a body of n bytes that is read from now on, until the returned function is called.
func (b *budget) comes(c *call, n int64) (came func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.coming = append(b.coming, coming{c, n, time.Now()})
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.coming = slices.DeleteFunc(b.coming, func(o coming) bool { return o.call == c })
	}
}

// giveWay ends the reading of as many bodies as have n bytes together, the oldest first, if they had their time. It returns how long the next
// one has, if these are not enough.
func (b *budget) giveWay(n int64) (later time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.coming) > 0 && n > 0 {
		if later := b.grace - time.Since(b.coming[0].since); later > 0 {
			return later
		}
		_ = b.coming[0].call.ctl.SetReadDeadline(time.Unix(1, 0))
		n -= b.coming[0].bytes
		b.coming = slices.Delete(b.coming, 0, 1) // it makes room once only
	}
	return 0
}
