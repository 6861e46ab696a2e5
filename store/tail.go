package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// pollHinted is how often the tail is asked for though no hint came; without hints it is asked for from pollBusy after
	// something came to pollIdle after nothing did for long.
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
		known, err := f.nothingNew(ctx)
		if err == nil && !known {
			err = f.catchUp(ctx)
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

// nothingNew says whether everything that was committed before the call is published. If a batch of our own is on its way, it is
// given a moment: it would only be read from the database what is published here at once.
func (f *follower) nothingNew(ctx context.Context) (bool, error) {
	if f.told.Swap(false) {
		return false, nil
	}
	f.asked.Add(1)
	q := f.ask()
	head, err := f.b.Head(ctx)
	if err != nil {
		return false, err
	}
	if f.holds(q, head) {
		return true, nil
	}
	flight := f.flight.Load()
	if flight == nil {
		return false, nil
	}
	patience := time.NewTimer(flightPatience)
	defer patience.Stop()
	select {
	case <-*flight:
	case <-patience.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return f.holds(q, head), nil
}

// holds says whether all that there is up to head, which was asked for after q was made, is published, and nothing that it tells is new.
func (f *follower) holds(q question, head backend.Head) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.s.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	switch {
	case head.Clock.Incarnation != q.incarnation, q.incarnation != f.incarnation.Load(), head.Alarms != f.alarms,
		etcdCompacted(head.Clock.Compacted) > etcdCompacted(x.compacted):
		return false
	case head.Clock.Revision == q.After:
		return head.Batch == q.batch
	}
	return head.Clock.Revision > q.After && head.Clock.Revision <= x.rev
}

// departs tells that a batch is being committed; the function that it returns tells that it is published, or not to be.
func (f *follower) departs() (arrives func()) {
	flight := make(chan struct{})
	f.flight.Store(&flight)
	return func() {
		f.flight.Store(nil)
		close(flight)
	}
}

// catchUp adopts everything up to the clock as it is after the call.
func (f *follower) catchUp(ctx context.Context) error {
	target := int64(-1)
	for unsettled := 0; ; {
		q := f.ask()
		f.asked.Add(1)
		t, err := f.b.Tail(ctx, q.TailQuery)
		if err == nil {
			f.fit(t.Changes)
			err = f.adopt(ctx, q, &t)
		} else {
			f.askLess()
		}
		if err != nil {
			if err = f.settle(ctx, q, err); err != nil {
				return err
			}
			if unsettled++; unsettled > unsettledMax {
				return fmt.Errorf("%w: it does not answer twice alike: is there more than one primary?", ErrUnavailable)
			}
			continue
		}
		if target < 0 {
			target = t.Clock.Revision
		}
		if f.s.Revision() >= target {
			return nil
		}
	}
}

// listen wakes the tail when another process has committed.
func (f *follower) listen() {
	f.b.Listen(f.s.ctx, func(revision int64) {
		if revision > f.s.Revision() {
			f.hinted.Add(1)
			f.told.Store(true)
			f.signal()
		}
	}, func(listening bool) {
		f.hints.Store(listening)
		f.signal() // what was committed before is not hinted at
	})
}

// fit chooses how many rows to ask for next by what the last ones took.
func (f *follower) fit(changes []backend.Change) {
	total := int64(0)
	for i := range changes {
		total += int64(len(changes[i].Row.Key) + len(changes[i].Row.Value))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = fitChunk(max(f.limit, chunkFirst), len(changes), total, tailRows)
}

// askLess halves what is asked for: it may have been more than comes in time.
func (f *follower) askLess() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = max(f.limit/2, 1)
}

func (f *follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// sync returns when everything is published that was committed, by whomever, before the call. Errors: ctx's, those of the
// backend.
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
