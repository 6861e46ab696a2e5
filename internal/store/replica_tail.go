package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// pollHinted is how often the tail is asked for though no hint came; without hints it is asked for from pollBusy
	// after something came to pollIdle after nothing did for long.
	pollHinted = time.Second
	pollBusy   = 4 * time.Millisecond
	pollIdle   = 64 * time.Millisecond
	// pollRetry is how long the tail waits before it asks a database again that failed.
	pollRetry = 200 * time.Millisecond
	// unsettledMax is how often in a row a tail may find the store reset or history lost.
	unsettledMax = 10
	// syncTimeout bounds how long a read waits for a database that hangs.
	syncTimeout = 7 * time.Second
	// flightPatience is how long a question waits for a batch of our own instead of reading it from the database.
	flightPatience = 20 * time.Millisecond
)

var errHangs = fmt.Errorf("%w: it does not answer", ErrUnavailable)

// run asks for the tail when somebody waits for it, when a hint came, and now and then.
func (f *follower) run() {
	ctx := f.s.ctx
	idle := pollBusy
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			f.answer(f.take(), ErrClosed)
			return
		case <-f.wake:
		case <-timer.C:
		}
		before, began := f.s.Revision(), time.Now()
		waiting := f.take()
		bound := f.staleness
		if len(waiting) == 0 && bound == 0 {
			bound = defaultStaleness
		}
		known, sure, err := f.nothingNew(ctx, bound)
		if err == nil && !known {
			err = f.follow(ctx, -1, bound, sure)
		}
		if err == nil {
			f.through.Store(&began)
		}
		f.answer(waiting, err)
		switch {
		case err != nil:
			idle = pollRetry
		case f.s.Revision() != before:
			idle = pollBusy
		default:
			idle = min(max(2*idle, pollBusy), pollIdle)
		}
		if err == nil && f.hints.Load() {
			timer.Reset(pollHinted)
			continue
		}
		timer.Reset(idle)
	}
}

// nothingNew says whether everything that was committed before the call is published, but for what bound allows to be
// missed. If not, sure is the server that was confirmed since the call, nil for none. If a batch of our own is on its
// way, it is given a moment: it would only be read from the database what is published here at once.
func (f *follower) nothingNew(ctx context.Context, bound time.Duration) (known bool, sure *backend.Server, err error) {
	if f.told.Swap(false) && bound > 0 {
		return false, nil, nil
	}
	f.asked.Add(1)
	q := f.ask()
	var head backend.Head
	if bound > 0 {
		if head, err = f.b.Head(ctx); err != nil {
			return false, nil, err
		}
	}
	if !f.within(head.Origin, bound) {
		if head, err = f.confirm(ctx); err != nil {
			return false, nil, err
		}
		sure = &head.Origin.Server
	}
	if f.holds(q, head) {
		return true, sure, nil
	}
	flight := f.flight.Load()
	if flight == nil {
		return false, sure, nil
	}
	patience := time.NewTimer(flightPatience)
	defer patience.Stop()
	select {
	case <-*flight:
	case <-patience.C:
		return false, sure, nil
	case <-ctx.Done():
		return false, nil, ctx.Err()
	}
	return f.holds(q, head), sure, nil
}

// holds says whether all that there is up to head, which was asked for after q was made, is published, and nothing that
// it tells is new.
func (f *follower) holds(q question, head backend.Head) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.s.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case head.Clock.Epoch != q.epoch, q.epoch != f.epoch.Load(), head.Alarms != f.alarms,
		etcdCompacted(head.Clock.Compacted) > etcdCompacted(x.compacted):
		return false
	case x.rev != q.After && head.Origin.Server != f.server: // another one, of which nobody knows what it has there
		return false
	case head.Clock.Revision == q.After:
		return head.Batch == q.batch
	}
	return head.Clock.Revision > q.After && head.Clock.Revision <= x.rev
}

// departs tells that a batch on top of revision base is being committed; the function that it returns tells that it is
// published, or not to be.
func (f *follower) departs(base int64) (arrives func()) {
	flight := make(chan struct{})
	f.below.Store(base)
	f.flight.Store(&flight)
	return func() {
		f.below.Store(0)
		f.flight.Store(nil)
		close(flight)
	}
}

// catchUp adopts everything up to the clock as it is after the call.
func (f *follower) catchUp(ctx context.Context) error {
	return f.follow(ctx, -1, publishStaleness, nil)
}

// reach adopts everything up to revision, which is committed.
func (f *follower) reach(ctx context.Context, revision int64) error {
	if f.s.Revision() >= revision {
		return nil
	}
	return f.follow(ctx, revision, publishStaleness, nil)
}

// follow adopts everything up to target, if negative up to the clock as it is after the call: from a server that was
// confirmed no longer ago than bound, or from sure, which was confirmed since the read came that this is for.
func (f *follower) follow(ctx context.Context, target int64, bound time.Duration, sure *backend.Server) error {
	for unsettled := 0; ; {
		clock, err := f.step(ctx, target, bound, sure)
		if errors.Is(err, errUnconfirmed) {
			head, err := f.confirm(ctx)
			if err != nil {
				return err
			}
			sure = &head.Origin.Server
		}
		if err != nil {
			if errors.Is(err, errUnsettled) || errors.Is(err, errUnconfirmed) {
				if unsettled++; unsettled > unsettledMax {
					return fmt.Errorf("%w: it does not answer twice alike: is there more than one primary?",
						ErrUnavailable)
				}
				continue
			}
			return err
		}
		if target < 0 {
			target = clock.Revision
		}
		if f.s.Revision() >= min(target, clock.Revision) { // the clock is below a target that was lost
			return nil
		}
	}
}

// errUnsettled says that what was in the way of a step is gone.
var errUnsettled = errors.New("the next step may succeed")

// step adopts the next part of what lies between the revision published and target, and returns the clock that it
// found. One step at a time: another would read the same.
func (f *follower) step(
	ctx context.Context, target int64, bound time.Duration, sure *backend.Server,
) (backend.Clock, error) {
	f.stepping.Lock()
	defer f.stepping.Unlock()
	q := f.ask()
	if target >= 0 && q.After >= target {
		return backend.Clock{}, nil
	}
	if below := f.below.Load(); q.After < below {
		q.Until = below // what lies above is our own
	}
	f.asked.Add(1)
	t, err := f.b.Tail(ctx, q.TailQuery)
	f.fit(err == nil)
	switch {
	case err != nil:
	case (sure == nil || *sure != t.Origin.Server) && !f.within(t.Origin, bound):
		err = errUnconfirmed
	default:
		err = f.adopt(ctx, q, &t)
	}
	if err == nil || errors.Is(err, errUnconfirmed) { // whoever called confirms it, as that may take long
		return t.Clock, err
	}
	if err = f.settle(ctx, q, err); err == nil {
		err = errUnsettled
	}
	return t.Clock, err
}

// listen wakes the tail when another process has committed.
func (f *follower) listen() {
	f.b.Listen(f.s.ctx, func(revision, compacted int64) {
		if revision > f.s.Revision() || etcdCompacted(compacted) > etcdCompacted(f.s.compacted()) {
			f.hinted.Add(1)
			f.told.Store(true)
			f.signal()
		}
	}, func(listening bool) {
		f.hints.Store(listening)
		f.signal() // what was committed before is not hinted at
	})
}

// fit halves what is asked for after a failure: it may have been more than comes in time.
func (f *follower) fit(came bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if came {
		f.bytes = min(2*f.bytes, tailBytes)
	} else {
		f.bytes = max(f.bytes/2, 1)
	}
}

func (f *follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// sync returns when everything is published that was committed, by whomever, before the call. Errors: ctx's, those of
// the backend.
func (f *follower) sync(ctx context.Context) error {
	done := make(chan error, 1)
	f.asking.Lock()
	f.waiting = append(f.waiting, done)
	f.asking.Unlock()
	f.signal()
	ctx, cancel := context.WithTimeoutCause(ctx, syncTimeout, errHangs)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if cause := context.Cause(ctx); errors.Is(cause, errHangs) {
			return cause
		}
		return ctx.Err()
	case <-f.s.ctx.Done():
		return ErrClosed
	}
}

// take returns those who wait: the question asked after it answers them.
func (f *follower) take() []chan error {
	f.asking.Lock()
	defer f.asking.Unlock()
	waiting := f.waiting
	f.waiting = nil
	return waiting
}

func (f *follower) answer(waiting []chan error, err error) {
	for _, done := range waiting {
		done <- err
	}
}
