package compactor

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// compactTimeout limits one attempt. A timeout does not undo the commit.
const compactTimeout = 30 * time.Second

// automatic is what this process knows about its automatic compactions.
type automatic struct {
	last, next   time.Time
	done, failed uint64
	failing      time.Time // since when all have failed, zero if the last succeeded
	err          error     // of the last attempt
}

// schedule records the revision regularly, and compacts when it is due.
func (c *Compactor) schedule(ctx context.Context) {
	var (
		h     history
		s     settings
		last  time.Time // of a compaction
		due   time.Time // of the next one
		now   = time.Now()
		timer = time.NewTimer(0)
	)
	defer timer.Stop()
	<-timer.C
	s = c.current()
	h.record(now, c.engine)
	if s.mode == Revision {
		due = c.after(now, s)
	}
	wait := c.jitter(s.sample()) // delays all later notes equally
	c.plan(s, &h, due, now, wait)
	timer.Reset(wait)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
			now, s = time.Now(), c.current()
			due = time.Time{}
			if !last.IsZero() {
				due = c.after(last, s)
			}
		case <-timer.C:
			now = time.Now()
		}
		h.record(now, c.engine)
		h.forget(now, s.remember())
		if !now.Before(due) {
			if c.attempt(ctx, s, &h, now) {
				last, due = now, c.after(now, s)
			} else if s.mode == Revision && !c.fails() {
				due = c.after(now, s)
			}
		}
		wait := s.sample()
		if left := due.Sub(now); left > 0 {
			wait = min(wait, left)
		}
		c.plan(s, &h, due, now, wait)
		timer.Reset(wait)
	}
}

func (c *Compactor) current() settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settings
}

// after returns when the compaction after one at t is due.
func (c *Compactor) after(t time.Time, s settings) time.Time {
	return t.Add(s.interval() + c.jitter(s.sample()))
}

// attempt compacts as the settings require, if there is something to compact, and reports whether it was done, by this
// process or another.
func (c *Compactor) attempt(ctx context.Context, s settings, h *history, now time.Time) bool {
	var rev int64
	switch s.mode {
	case Periodic:
		rev, _ = h.old(now, s.period)
	case Revision:
		rev = c.engine.Revision() - s.revisions
	}
	if s.mode == Off || !c.engine.Leads() || rev <= c.engine.Compacted() {
		c.note(func(a *automatic) { a.failing, a.err = time.Time{}, nil }) // nothing is left to do
		return false
	}
	attempt, cancel := context.WithTimeout(auth.With(ctx, auth.Server), compactTimeout)
	defer cancel()
	_, err := c.engine.Compact(attempt, rev, false)
	switch {
	case err == nil:
		c.outages.schedule.Worked() // the next line says so
		c.log.Info("compacted", "revision", rev)
		c.note(func(a *automatic) { a.done, a.last, a.failing, a.err = a.done+1, now, time.Time{}, nil })
		return true
	case errors.Is(err, store.ErrCompacted): // kube-apiserver was faster
		c.note(func(a *automatic) { a.failing, a.err = time.Time{}, nil })
		return true
	case ctx.Err() == nil:
		if c.outages.schedule.Failed() {
			c.log.Error("automatic compaction failed, retrying", "revision", rev, "error", err)
		}
		c.note(func(a *automatic) {
			if a.failed, a.err = a.failed+1, err; a.failing.IsZero() {
				a.failing = now
			}
		})
	}
	return false
}

// note updates the state of the automatic compactions.
func (c *Compactor) note(f func(*automatic)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.automatic)
}

func (c *Compactor) fails() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.automatic.err != nil
}

// plan records when the next compaction is due. One that is due, and had nothing to do or failed, is due again at the
// next check, wait from now.
func (c *Compactor) plan(s settings, h *history, due, now time.Time, wait time.Duration) {
	if s.mode == Periodic {
		if known := h.since().Add(s.period); known.After(due) {
			due = known
		}
	}
	switch {
	case s.mode == Off:
		due = time.Time{}
	case !due.After(now):
		due = now.Add(wait)
	}
	c.note(func(a *automatic) { a.next = due })
}
