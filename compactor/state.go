package compactor

import (
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// failTimeout is how long automatic compaction may fail before that counts as a stall, or two intervals if longer.
	failTimeout = time.Minute
	// purgeTimeout is how long the deletion of rows may make no progress, while there are rows to delete, before that
	// counts as a stall.
	purgeTimeout = 2 * time.Minute
	// readTimeout is the same if readers keep the rows: longer than a list can keep them.
	readTimeout = store.StreamPinLimit + purgeTimeout
)

// State is the state of a compactor, for metrics, /readyz?verbose and /status.
type State struct {
	// Mode is Off, and Retention empty, if automatic compaction is off.
	Mode      Mode
	Retention string
	// Leads reports that this process compacts and deletes.
	Leads bool
	// Compacted is the oldest readable revision. Purged is the revision up to which superseded rows are deleted, or -1
	// if this process does not know.
	Compacted, Purged int64
	// Done and Failed count the automatic compactions of this process.
	Done, Failed uint64
	// Last is when this process last compacted automatically, zero if never. Next is when it plans to do so again, or
	// to check whether there is something to compact, zero if it does not.
	Last, Next time.Time
	// Stall is nil while nothing is stalled.
	Stall *Stall
}

// Stall explains why compaction, or the deletion of rows, makes no progress.
type Stall struct {
	Since   time.Time
	Reason  string // one CamelCase word
	Message string // what is wrong and what to do about it
}

// The reasons of a [Stall].
const (
	CompactionFails = "CompactionFails" // automatic compaction ends in an error
	PurgeFails      = "PurgeFails"      // deleting rows ends in an error
	PurgeHeld       = "PurgeHeld"       // somebody keeps reading the rows
	PurgeHangs      = "PurgeHangs"      // a step does not end
)

// State returns the state of c. It never blocks.
func (c *Compactor) State() State {
	c.mu.Lock()
	s, a, p := c.settings, c.automatic, c.purging
	c.mu.Unlock()
	st := State{
		Mode: s.mode, Retention: s.retention, Leads: c.engine.Leads(), Compacted: c.engine.Compacted(), Purged: unknown,
		Done: a.done, Failed: a.failed, Last: a.last,
	}
	if !st.Leads {
		return st
	}
	st.Next, st.Purged = a.next, p.through
	now := time.Now()
	if st.Stall = a.stall(now, s); st.Stall == nil {
		st.Stall = p.stall(now, c.engine.Readers)
	}
	return st
}

func (a *automatic) stall(now time.Time, s settings) *Stall {
	if a.err == nil || now.Sub(a.failing) <= max(2*s.interval(), failTimeout) {
		return nil
	}
	return &Stall{a.failing, CompactionFails, fmt.Sprintf(
		"automatic compaction has failed since then, and the history grows; it is retried every %v, check the "+
			"database: %v", s.sample(), a.err)}
}

func (p *purging) stall(now time.Time, readers func() string) *Stall {
	still := now.Sub(p.advanced)
	if p.finished || p.advanced.IsZero() || still <= purgeTimeout {
		return nil
	}
	where := fmt.Sprintf("rows superseded at or below revision %d are not being deleted, and the database grows: ",
		p.target)
	switch {
	case p.err != nil:
		return &Stall{p.advanced, PurgeFails, where + fmt.Sprintf("check the database: %v", p.err)}
	case !p.waits:
		return &Stall{p.advanced, PurgeHangs, where + "a step does not finish; check what locks or loads the database"}
	case still <= readTimeout:
		return nil
	}
	who := readers()
	if who == "" {
		who = "a long read through another replica"
	}
	return &Stall{p.advanced, PurgeHeld, where + "still needed by " + who + "; end it, or wait until it ends"}
}
