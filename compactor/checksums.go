package compactor

import (
	"context"
	"time"
)

// checksumPeriod is how often to check whether there are rows without checksums: replicas of an older version may write
// some at any time.
const checksumPeriod = time.Minute

// checksums adds checksums to the rows of an older version.
func (c *Compactor) checksums(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	rows, added := newPace(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if !c.engine.Leads() {
			rows, added = newPace(), 0
			timer.Reset(checksumPeriod)
			continue
		}
		res, err := c.engine.AddChecksums(ctx, rows.units)
		rest := checksumPeriod
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			rows.failed()
			if c.outages.checksums.Failed() {
				c.log.Warn("rows of an older version have no checksums yet", "error", err)
			}
		case !res.Done:
			added += res.Added
			rest = rows.took(res.Looked, res.Took, res.Blocked)
		case added > 0:
			c.log.Info("rows of an older version have checksums now", "rows", added, "revision", res.Through)
			added = 0
		}
		timer.Reset(rest)
	}
}
