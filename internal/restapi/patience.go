package restapi

import (
	"context"
	"net/http"
	"time"
)

// A database that other servers share can get out of reach. Requests then wait for as long as they do at etcd without a
// leader, and are answered so that their clients turn to another replica.
const (
	patience     = 7 * time.Second
	listPatience = 30 * time.Second // for each chunk
)

var errNoDatabase = failure(http.StatusServiceUnavailable, reasonUnavailable,
	"the database is out of reach of this replica: ask another one").retry(1)

// bounded is for what has no reason to take long.
func (c *call) bounded(parent context.Context) (context.Context, context.CancelFunc) {
	if c.s.engine.NoLeader() != nil {
		return context.WithTimeoutCause(parent, patience, errNoDatabase)
	}
	return context.WithTimeout(parent, c.s.o.Timeout)
}

// because is err, or why ctx ended when that is what err tells of.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// steps is for what may take as long as it goes on: between two calls of the function returned, from going off to
// coming back, the database has had its chance.
func (c *call) steps(
	parent context.Context,
) (ctx context.Context, step func(func() error) error, cancel context.CancelFunc) {
	if c.s.engine.NoLeader() == nil {
		return parent, func(f func() error) error { return f() }, func() {}
	}
	ctx, end := context.WithCancelCause(parent)
	timer := time.AfterFunc(listPatience, func() { end(errNoDatabase) })
	step = func(f func() error) error {
		timer.Stop()
		defer timer.Reset(listPatience)
		return f()
	}
	return ctx, step, func() {
		timer.Stop()
		end(nil)
	}
}

// connected is a context that ends when the database has been out of reach for five seconds.
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
