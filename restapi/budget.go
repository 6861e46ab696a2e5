package restapi

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// smallBody is how long a body may be that is read whatever else is being read: most objects are no longer.
	smallBody = 64 << 10
	// bodiesBytes is how much longer bodies may hold together, from the first byte read until the request is answered.
	bodiesBytes = 64 << 20
	// leastBodies is how many of the longest are let in, however long they may be.
	leastBodies = 4
	// bodyPatience is how long a body waits for others to be done with, unread.
	bodyPatience = 3 * time.Second
)

var errBodies = failure(http.StatusTooManyRequests, reasonTooMany, "too many large bodies are being read: try again").retry(1)

func newBudget(o *Options) *semaphore.Weighted {
	return semaphore.NewWeighted(max(bodiesBytes, leastBodies*o.putLimit()))
}

// hold waits until n bytes of the server's budget are free, and takes them until the request is answered. Errors: 429.
func (c *call) hold(n int64) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), bodyPatience)
	defer cancel()
	if c.s.bodies.Acquire(ctx, n) != nil {
		return errBodies
	}
	c.held += n
	return nil
}
