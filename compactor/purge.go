package compactor

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// purgePeriod is how often the purge looks whether there is something to delete.
	purgePeriod = time.Second
	// unknown is how far the purge came as long as this process has not looked.
	unknown = -1
)

// purging is what there is to know about the deletion of rows by this process.
type purging struct {
	target   int64     // the compacted revision that is worked on
	through  int64     // up to where rows are gone, or unknown
	near     int64     // see [backend.PurgeResult]
	finished bool      // all is done for target, free space is given back
	advanced time.Time // when something went on last, or when there came to be something to do
	waits    bool      // the last step had to wait for somebody who reads the rows
	err      error     // of the last step
}

// purge deletes what compactions leave behind, and gives free space back.
func (c *Compactor) purge(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var (
		rows, pages = newPace(), newPace()
		next        plan
		backlog     int64 // when the compaction that is worked on came
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !c.engine.Leads() {
			rows, pages, next, backlog = newPace(), newPace(), plan{}, 0
			c.progress(func(p *purging) { *p = purging{through: unknown} }) // another replica deletes; how far is not known here
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
					p.advanced = time.Now() // from now on there is something to do
				}
				p.target, p.finished = compacted, false
			})
		}
		rest := c.step(ctx, &rows, &pages)
		if ctx.Err() != nil {
			return
		}
		if is := c.purged(); rows.behind == 0 {
			rest = max(rest, next.rest(time.Now(), is.near-was.near, is.target-is.near))
		}
		timer.Reset(rest)
	}
}

// step deletes some rows or, when there are none left, gives some space back, and returns the rest after it. It has to wait while something
// else reads what is to be deleted.
func (c *Compactor) step(ctx context.Context, rows, pages *pace) (rest time.Duration) {
	res, err := c.engine.PurgeStep(ctx, rows.units)
	finished := false
	switch {
	case err != nil || res == (backend.PurgeResult{}):
		rest = purgePeriod
	case !res.Done:
		rest = rows.took(res.Looked, res.Took, res.Blocked)
	default:
		var took time.Duration
		finished, took, err = c.engine.Reclaim(ctx, pages.units)
		switch {
		case err != nil:
			rest = purgePeriod
		case finished: // there was less to do, or nothing, which tells nothing of more
			rest = shortestRest
		default:
			rest = pages.took(pages.units, took, took)
		}
	}
	if err != nil && ctx.Err() == nil {
		c.log.Error("rows below the compacted revision are not deleted yet", "compacted", c.engine.Compacted(), "error", err)
	}
	c.progress(func(p *purging) {
		p.err, p.waits = err, err == nil && res == backend.PurgeResult{}
		if err == nil && !p.waits {
			p.advanced, p.through, p.near, p.finished = time.Now(), max(p.through, res.Through), max(p.near, res.Near), finished
		}
	})
	return rest
}

// progress changes what is known of the purge.
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
