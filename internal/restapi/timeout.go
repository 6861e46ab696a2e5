package restapi

import (
	"context"
	"net/http"
	"time"
)

// A database shared by several servers can become unreachable. Requests then wait as long as in an etcd without a
// leader, and fail so that their clients try another replica.
const (
	requestTimeout = 7 * time.Second
	listTimeout    = 30 * time.Second // for each chunk
)

var errNoDatabase = failure(http.StatusServiceUnavailable, reasonUnavailable,
	"this replica cannot reach the database: try another one").retry(1)

// bounded limits operations that have no reason to take long.
func (c *call) bounded(parent context.Context) (context.Context, context.CancelFunc) {
	if c.s.engine.NoLeader() != nil {
		return context.WithTimeoutCause(parent, requestTimeout, errNoDatabase)
	}
	return context.WithTimeout(parent, c.s.o.Timeout)
}

// because returns err, or why ctx ended if that caused err.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// steps limits operations that may run as long as they make progress. The time between two calls of the returned
// function is the database's.
func (c *call) steps(
	parent context.Context,
) (ctx context.Context, step func(func() error) error, cancel context.CancelFunc) {
	if c.s.engine.NoLeader() == nil {
		return parent, func(f func() error) error { return f() }, func() {}
	}
	ctx, end := context.WithCancelCause(parent)
	timer := time.AfterFunc(listTimeout, func() { end(errNoDatabase) })
	step = func(f func() error) error {
		timer.Stop()
		defer timer.Reset(listTimeout)
		return f()
	}
	return ctx, step, func() {
		timer.Stop()
		end(nil)
	}
}

// connected returns a context that ends when the database has been unreachable for five seconds.
func (c *call) connected(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if none := c.s.engine.NoLeader(); none != nil {
		go func() {
			select {
			case <-none:
				cancel(errNoDatabase)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}
