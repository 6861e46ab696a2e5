package compactor

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// purgePeriod is how often the purge looks whether there is something to delete.
	purgePeriod = time.Second
	// stepRows is how many rows one step deletes, reclaimPages how many free pages one gives back.
	stepRows     = 500
	reclaimPages = 256
	// restFactor is how many times its duration the pause after a step is. It is halved for each compaction that came while
	// the rows of an earlier one were still there: a purge that falls behind for good would let the database grow for ever.
	restFactor = 4
	// stepRest is the shortest pause between two steps.
	stepRest = 5 * time.Millisecond
)

// purge deletes what compactions leave behind, and gives free space back.
func (c *Compactor) purge(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var (
		finished = int64(-1) // the compacted revision whose rows are gone
		target   int64       // the one being worked on
		behind   int         // compactions that came meanwhile
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !c.engine.Leads() {
			finished, target, behind = -1, 0, 0 // what another replica has deleted is not known here
			timer.Reset(purgePeriod)
			continue
		}
		compacted := c.engine.Compacted()
		if compacted == finished {
			behind = 0
			timer.Reset(purgePeriod)
			continue
		}
		if target > finished && compacted != target {
			behind++
		}
		target = compacted
		began := time.Now()
		done, waiting, err := c.step(ctx)
		rest := max(time.Since(began)*(restFactor>>behind), stepRest)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.Error("rows below the compacted revision are not deleted yet", "compacted", compacted, "error", err)
			rest = purgePeriod
		case waiting:
			rest = purgePeriod
		case done:
			finished = compacted
		}
		timer.Reset(rest)
	}
}

// step deletes some rows or, when there are none left, gives some space back. It has to wait while something else reads what
// is to be deleted.
func (c *Compactor) step(ctx context.Context) (done, waiting bool, err error) {
	res, err := c.engine.PurgeStep(ctx, stepRows)
	if err != nil || !res.Done {
		return false, res == (backend.PurgeResult{}), err
	}
	done, err = c.engine.Reclaim(ctx, reclaimPages)
	return done, false, err
}
