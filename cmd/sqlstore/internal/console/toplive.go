package console

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// topEvery is how often a page of Top learns what has changed.
const topEvery = time.Second

// topProgress sends the progress of a count until it ends, and then the event "done".
func (c *Console) topProgress(r *http.Request, s *eventStream) error {
	if err := c.mayCount(r); err != nil {
		return err
	}
	if err := c.progress(r, s); err != nil || r.Context().Err() != nil {
		return err
	}
	return s.send(event{name: "done"})
}

// topLive sends the progress of a count until it ends, and from then on the event "changed" when the result has: it
// follows the changes. "done" means that there is no result.
func (c *Console) topLive(r *http.Request, s *eventStream) error {
	if err := c.mayCount(r); err != nil {
		return err
	}
	for r.Context().Err() == nil {
		if err := c.progress(r, s); err != nil {
			return err
		}
		n := c.counter.state().last
		if n == nil {
			return s.send(event{name: "done"})
		}
		if err := c.changes(r, s, n); err != nil {
			return err
		}
	}
	return nil
}

// progress sends the event "progress" each second while a count goes on, until the browser has disconnected.
func (c *Console) progress(r *http.Request, s *eventStream) error {
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for {
		running := c.counter.state().running
		if running == nil {
			return nil
		}
		if err := s.send(event{name: "progress", data: running}); err != nil {
			return err
		}
		select {
		case <-running.done:
		case <-tick.C:
		case <-r.Context().Done():
			return nil
		}
	}
}

// changes sends the event "changed" when a result has changed, at most each second, until another count begins or the
// browser has disconnected. One of those who look at the result adds the changes. Errors: [*failure] if it is not up to
// date any more, and cannot be.
func (c *Console) changes(r *http.Request, s *eventStream, n *counted) error {
	ctx, cancel := context.WithCancel(r.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	failed := make(chan error, 1)
	following.Go(func() { failed <- n.stay(r.WithContext(ctx), c.api) })
	tick := time.NewTicker(topEvery)
	defer tick.Stop()
	for shown := int64(-1); ; {
		if changed := n.changes(); changed != shown {
			shown = changed
			if err := c.mayCount(r); err != nil {
				return err
			}
			if err := s.send(event{name: "changed"}); err != nil {
				return err
			}
		}
		select {
		case err := <-failed:
			if is(err, http.StatusGone) {
				return errSuperseded
			}
			return err
		case <-tick.C:
		case <-r.Context().Done():
			return nil
		}
		if now := c.counter.state(); now.running != nil || now.last != n {
			return nil
		}
	}
}

// stay adds what changes until the request's context ends. It waits while somebody else does.
func (n *counted) stay(r *http.Request, api api) error {
	select {
	case n.following <- struct{}{}:
		defer func() { <-n.following }()
	case <-r.Context().Done():
		return nil
	}
	pace := &pacer{ctx: r.Context(), began: time.Now()}
	defer n.reached(0, false)
	return n.follow(r, api, func(int64) error { return pace.pause() }, func(revision int64) error {
		n.reached(revision, true)
		return nil
	})
}
