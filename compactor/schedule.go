package compactor

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

// compactTimeout is how long one attempt may take. The commit is not undone by its end.
const compactTimeout = 30 * time.Second

// automatic is what there is to know about the compactions that this process makes by itself.
type automatic struct {
	last, next   time.Time
	done, failed uint64
	failing      time.Time // since when none has gone well, zero while they do
	err          error     // of the last attempt
}

// schedule notes the revision now and then, and compacts when it is due.
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
	h.look(now, c.engine)
	if s.mode == Revision {
		due = c.after(now, s)
	}
	wait := c.jitter(s.sample()) // all later notes are as much later
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
		h.look(now, c.engine)
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

// after is when the compaction after one at t is due.
func (c *Compactor) after(t time.Time, s settings) time.Time {
	return t.Add(s.interval() + c.jitter(s.sample()))
}

// attempt compacts to what the settings ask for, if there is something, and returns whether it was done, by us or by somebody
// else.
func (c *Compactor) attempt(ctx context.Context, s settings, h *history, now time.Time) bool {
	var rev int64
	switch s.mode {
	case Periodic:
		rev, _ = h.old(now, s.period)
	case Revision:
		rev = c.engine.Revision() - s.revisions
	}
	if s.mode == Off || !c.engine.Leads() || rev <= c.engine.Compacted() {
		c.note(func(a *automatic) { a.failing, a.err = time.Time{}, nil }) // nothing is left undone
		return false
	}
	attempt, cancel := context.WithTimeout(ctx, compactTimeout)
	defer cancel()
	_, err := c.engine.Compact(attempt, rev, false)
	switch {
	case err == nil:
		c.log.Info("compacted", "revision", rev)
		c.note(func(a *automatic) { a.done, a.last, a.failing, a.err = a.done+1, now, time.Time{}, nil })
		return true
	case errors.Is(err, store.ErrCompacted): // kube-apiserver was faster
		c.note(func(a *automatic) { a.failing, a.err = time.Time{}, nil })
		return true
	case ctx.Err() == nil:
		c.log.Error("automatic compaction failed, it is tried again", "revision", rev, "error", err)
		c.note(func(a *automatic) {
			if a.failed, a.err = a.failed+1, err; a.failing.IsZero() {
				a.failing = now
			}
		})
	}
	return false
}

// note changes what is known of the automatic compactions.
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

// plan notes when the next compaction is due. One that is due, and had nothing to do or failed, is due again at the next look, which is
// wait from now.
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
