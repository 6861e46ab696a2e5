package compactor

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/store"
)

const (
	// revisionPeriod is how often the revision mode looks.
	revisionPeriod = 5 * time.Minute
	// longestInterval is the longest time between two periodic compactions, however long the retention.
	longestInterval = time.Hour
	// samples is how often the revision is noted in such an interval.
	samples = 10
)

// runPeriodic notes the revision now and then, and compacts to the one that was current a retention ago.
func (c *Compactor) runPeriodic(ctx context.Context) {
	interval := min(c.period, longestInterval)
	tick := time.NewTicker(max(interval/samples, time.Millisecond))
	defer tick.Stop()
	h := history{keep: c.period}
	h.note(time.Now(), c.engine.Revision())
	var last time.Time // of a compaction
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		h.note(now, c.engine.Revision())
		rev, ok := h.old(now)
		if !ok || !last.IsZero() && now.Sub(last) < interval {
			continue
		}
		if c.compact(ctx, rev) {
			last = now
		}
	}
}

// history remembers which revision was current when, as far back as a retention.
type history struct {
	keep  time.Duration
	noted []note
}

type note struct {
	at  time.Time
	rev int64
}

func (h *history) note(now time.Time, rev int64) { h.noted = append(h.noted, note{now, rev}) }

// old returns the newest revision noted at least a retention ago, and forgets what is older.
func (h *history) old(now time.Time) (rev int64, ok bool) {
	n := 0
	for n < len(h.noted) && now.Sub(h.noted[n].at) >= h.keep {
		n++
	}
	if n == 0 {
		return 0, false
	}
	h.noted = append(h.noted[:0], h.noted[n-1:]...)
	return h.noted[0].rev, true
}

func (c *Compactor) runRevision(ctx context.Context) {
	tick := time.NewTicker(revisionPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.compact(ctx, c.engine.Revision()-c.revisions)
		}
	}
}

// compact returns whether rev was compacted, by us or by somebody else.
func (c *Compactor) compact(ctx context.Context, rev int64) bool {
	if !c.engine.Leads() || rev <= c.engine.Compacted() {
		return false
	}
	_, err := c.engine.Compact(ctx, rev, false)
	switch {
	case err == nil:
		c.log.Info("compacted", "revision", rev)
		return true
	case errors.Is(err, store.ErrCompacted):
		return true
	case ctx.Err() == nil:
		c.log.Error("automatic compaction failed, it is tried again", "revision", rev, "error", err)
	}
	return false
}
