package compactor

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// purgePeriod is how often the purge checks whether there is something to delete.
	purgePeriod = time.Second
	// unknown is the progress of the purge until this process has checked it.
	unknown = -1
)

// purging is what this process knows about the deletion of rows.
type purging struct {
	target   int64     // the compacted revision being worked on
	through  int64     // rows up to here are deleted, or unknown
	near     int64     // see [backend.PurgeResult]
	finished bool      // target is done, including freeing space
	advanced time.Time // when it last made progress, or when work first appeared
	waits    bool      // the last step had to wait because a reader needs the rows
	err      error     // of the last step
}

// purge deletes what compactions leave behind, and frees space.
func (c *Compactor) purge(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var (
		rows, pages = newPace(), newPace()
		next        plan
		backlog     int64 // when the current compaction arrived
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !c.engine.Leads() {
			rows, pages, next, backlog = newPace(), newPace(), plan{}, 0
			// another replica deletes; its progress is unknown here
			c.progress(func(p *purging) { *p = purging{through: unknown} })
			timer.Reset(purgePeriod)
			continue
		}
		compacted := c.engine.Compacted()
		was := c.purged()
		if compacted < was.target { // history was lost
			was = purging{through: unknown}
			c.progress(func(p *purging) { *p = was })
		}
		if compacted == was.target && was.finished {
			rows.behind, pages.behind, backlog = 0, 0, 0
			timer.Reset(purgePeriod)
			continue
		}
		if compacted != was.target {
			left := compacted - was.near
			if backlog > 0 && left > backlog {
				rows.hurry()
				pages.hurry()
			}
			backlog = left
			next.next(time.Now())
			c.progress(func(p *purging) {
				if p.finished || p.through == unknown {
					p.advanced = time.Now() // there is work from now on
				}
				p.target, p.finished = compacted, false
			})
		}
		pause := c.step(ctx, &rows, &pages)
		if ctx.Err() != nil {
			return
		}
		if is := c.purged(); rows.behind == 0 {
			pause = max(pause, next.pause(time.Now(), is.near-was.near, is.target-is.near))
		}
		timer.Reset(pause)
	}
}

// step deletes some rows or, if none are left, frees some space, and returns the pause after it. It has to wait while
// something else reads the rows to be deleted.
func (c *Compactor) step(ctx context.Context, rows, pages *pace) (pause time.Duration) {
	res, err := c.engine.PurgeStep(ctx, rows.units)
	finished := false
	switch {
	case err != nil:
		pause = purgePeriod
		rows.failed()
	case res == backend.PurgeResult{}:
		pause = purgePeriod
	case !res.Done:
		pause = rows.adapt(res.Examined, res.Duration, res.Blocked)
	default:
		var took time.Duration
		finished, took, err = c.engine.Reclaim(ctx, pages.units)
		switch {
		case err != nil:
			pause = purgePeriod
			pages.failed()
		case finished: // there was little or nothing to do, which proves nothing
			pause = minPause
		default:
			pause = pages.adapt(pages.units, took, took)
		}
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if c.outages.purge.Worked() {
			c.log.Info("rows below the compacted revision are deleted again")
		}
	case c.outages.purge.Failed():
		c.log.Error("rows below the compacted revision are not deleted yet", "compacted", c.engine.Compacted(),
			"error", err)
	}
	c.progress(func(p *purging) {
		p.err, p.waits = err, err == nil && res == backend.PurgeResult{}
		if err == nil && !p.waits {
			p.advanced, p.through, p.near, p.finished = time.Now(), max(p.through, res.Through), max(p.near, res.Near),
				finished
		}
	})
	return pause
}

// progress updates the state of the purge.
func (c *Compactor) progress(f func(*purging)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.purging)
}

func (c *Compactor) purged() purging {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.purging
}
