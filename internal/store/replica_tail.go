package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// pollHinted is how often the tail is read even though no hint came. Without hints, the interval grows from
	// pollBusy, after something new, to pollIdle, after a long time without.
	pollHinted = time.Second
	pollBusy   = 4 * time.Millisecond
	pollIdle   = 64 * time.Millisecond
	// pollRetry is how long the tail waits after an error before it queries the database again.
	pollRetry = 200 * time.Millisecond
	// unsettledMax is how often in a row a tail may find that the store was reset or that history was lost.
	unsettledMax = 10
	// syncTimeout bounds how long a read waits for a database that hangs.
	syncTimeout = 7 * time.Second
	// flightTimeout is how long a question waits for a batch of this replica, to avoid reading it from the database.
	flightTimeout = 20 * time.Millisecond
)

var errUnresponsive = fmt.Errorf("%w: it does not answer", ErrUnavailable)

// run reads the tail when somebody waits for it, when a hint came, and now and then.
func (r *replica) run() {
	ctx := r.s.ctx
	idle := pollBusy
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.answer(r.dequeueWaiting(), ErrClosed)
			return
		case <-r.wake:
		case <-timer.C:
		}
		before, began := r.s.Revision(), time.Now()
		waiting := r.dequeueWaiting()
		bound := r.staleness
		if len(waiting) == 0 && bound == 0 {
			bound = defaultStaleness
		}
		known, sure, err := r.nothingNew(ctx, bound)
		if err == nil && !known {
			err = r.follow(ctx, -1, bound, sure)
		}
		if err == nil {
			r.through.Store(&began)
		}
		r.answer(waiting, err)
		switch {
		case err != nil:
			idle = pollRetry
		case r.s.Revision() != before:
			idle = pollBusy
		default:
			idle = min(max(2*idle, pollBusy), pollIdle)
		}
		if err == nil && r.hints.Load() {
			timer.Reset(pollHinted)
			continue
		}
		timer.Reset(idle)
	}
}

// nothingNew reports whether everything committed before the call is published, except for what bound allows a read to
// miss. If not, sure is the server that was confirmed since the call, nil if none was. If a batch of this replica is
// being committed, nothingNew gives it a moment: the tail would only read from the database what this process publishes
// shortly.
func (r *replica) nothingNew(ctx context.Context, bound time.Duration) (known bool, sure *backend.Server, err error) {
	if r.news.Swap(false) && bound > 0 {
		return false, nil, nil
	}
	r.asked.Add(1)
	q := r.ask()
	var head backend.Head
	if bound > 0 {
		if head, err = r.b.Head(ctx); err != nil {
			return false, nil, err
		}
	}
	if !r.within(head.Origin, bound) {
		if head, err = r.confirm(ctx); err != nil {
			return false, nil, err
		}
		sure = &head.Origin.Server
	}
	if r.upToDate(q, head) {
		return true, sure, nil
	}
	flight := r.flight.Load()
	if flight == nil {
		return false, sure, nil
	}
	timeout := time.NewTimer(flightTimeout)
	defer timeout.Stop()
	select {
	case <-*flight:
	case <-timeout.C:
		return false, sure, nil
	case <-ctx.Done():
		return false, nil, ctx.Err()
	}
	return r.upToDate(q, head), sure, nil
}

// upToDate reports whether everything up to head is published and head shows nothing else new. head was asked for after
// q was made.
func (r *replica) upToDate(q question, head backend.Head) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.s.index.Position()
	switch {
	case head.Clock.Epoch != q.epoch, q.epoch != r.s.epoch.Load(), head.Alarms != r.alarms,
		head.Origin.Server != r.alarmsServer,
		index.EtcdCompacted(head.Clock.Compacted) > index.EtcdCompacted(at.Compacted):
		return false
	case at.Revision != q.After && head.Origin.Server != r.server: // another server's history there is unknown
		return false
	case head.Clock.Revision == q.After:
		return head.Batch == q.batch
	}
	return head.Clock.Revision > q.After && head.Clock.Revision <= at.Revision
}

// catchUp adopts everything up to the clock as it is after the call.
func (r *replica) catchUp(ctx context.Context) error {
	return r.follow(ctx, -1, publishStaleness, nil)
}

// reach adopts everything up to revision, which is committed.
func (r *replica) reach(ctx context.Context, revision int64) error {
	if r.s.Revision() >= revision {
		return nil
	}
	return r.follow(ctx, revision, publishStaleness, nil)
}

// follow adopts everything up to target, or up to the clock as it is after the call if target is negative. It accepts
// answers of a server that was confirmed no longer than bound ago, or of sure, which was confirmed after the read
// arrived that follow runs for.
func (r *replica) follow(ctx context.Context, target int64, bound time.Duration, sure *backend.Server) error {
	for unsettled := 0; ; {
		clock, err := r.step(ctx, target, bound, sure)
		if errors.Is(err, errUnconfirmed) {
			head, err := r.confirm(ctx)
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
		if r.s.Revision() >= min(target, clock.Revision) { // the clock is below a target that was lost
			return nil
		}
	}
}

// errUnsettled means that whatever kept a step from succeeding is gone.
var errUnsettled = errors.New("the next step may succeed")

// step adopts the next part of what lies between the published revision and target, and returns the clock that it
// found. One step runs at a time, since another would read the same rows.
func (r *replica) step(
	ctx context.Context, target int64, bound time.Duration, sure *backend.Server,
) (backend.Clock, error) {
	r.stepping.Lock()
	defer r.stepping.Unlock()
	q := r.ask()
	if target >= 0 && q.After >= target {
		return backend.Clock{}, nil
	}
	if below := r.below.Load(); q.After < below {
		q.Until = below // what lies above is this replica's own
	}
	r.asked.Add(1)
	t, err := r.b.Tail(ctx, q.TailQuery)
	r.fit(err == nil)
	switch {
	case err != nil:
	case (sure == nil || *sure != t.Origin.Server) && !r.within(t.Origin, bound):
		err = errUnconfirmed
	default:
		err = r.adopt(ctx, q, &t)
	}
	if err == nil || errors.Is(err, errUnconfirmed) { // the caller confirms it, since that may take long
		return t.Clock, err
	}
	if err = r.settle(ctx, q, err); err == nil {
		err = errUnsettled
	}
	return t.Clock, err
}

// listen wakes run when another process has committed.
func (r *replica) listen() {
	r.b.Listen(r.s.ctx, func(revision, compacted int64) {
		if revision == 0 {
			r.beatSoon() // the member that left may have been the leader
			return
		}
		if revision > r.s.Revision() || index.EtcdCompacted(compacted) > index.EtcdCompacted(r.s.compacted()) {
			r.hinted.Add(1)
			r.news.Store(true)
			r.signal()
		}
	}, func(listening bool) {
		r.hints.Store(listening)
		r.signal() // no hint announces what was committed before
	})
}

// fit halves the bytes to ask for after a failure: they may have been too many to arrive in time. It doubles them again
// after a success, up to tailBytes.
func (r *replica) fit(succeeded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if succeeded {
		r.bytes = min(2*r.bytes, tailBytes)
	} else {
		r.bytes = max(r.bytes/2, 1)
	}
}

func (r *replica) behind() time.Duration { return time.Since(*r.through.Load()) }

func (r *replica) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// sync returns once everything that anyone committed before the call is published. Errors: ctx's, [ErrClosed], those of
// the backend.
func (r *replica) sync(ctx context.Context) (err error) {
	ctx, span := r.s.cfg.Tracer.Begin(ctx, "wait for the clock")
	defer func() { span.Fail(err); span.End() }()
	done := make(chan error, 1)
	r.asking.Lock()
	r.waiting = append(r.waiting, done)
	r.asking.Unlock()
	r.signal()
	ctx, cancel := context.WithTimeoutCause(ctx, syncTimeout, errUnresponsive)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if cause := context.Cause(ctx); errors.Is(cause, errUnresponsive) {
			return cause
		}
		return ctx.Err()
	case <-r.s.ctx.Done():
		return ErrClosed
	}
}

// dequeueWaiting returns the reads that wait; the next question answers them.
func (r *replica) dequeueWaiting() []chan error {
	r.asking.Lock()
	defer r.asking.Unlock()
	waiting := r.waiting
	r.waiting = nil
	return waiting
}

func (r *replica) answer(waiting []chan error, err error) {
	for _, done := range waiting {
		done <- err
	}
}
