package compactor

import (
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// failPatience is how long automatic compaction may fail at least before that counts as a stall; else it is two intervals.
	failPatience = time.Minute
	// purgePatience is how long the deletion of rows may stand still though there are some.
	purgePatience = 2 * time.Minute
	// readPatience is how long it may do so for those who read the rows: longer than a list can hold it off.
	readPatience = store.StreamHold + purgePatience
)

// State is what a compactor is about, for metrics, /readyz?verbose and /status.
type State struct {
	// Mode is Off, and Retention empty, when no automatic compaction is asked for.
	Mode      Mode
	Retention string
	// Leads says that this process is the one that compacts and deletes.
	Leads bool
	// Compacted is the oldest revision that can be read; Purged the one up to which the superseded rows are gone, -1 when this
	// process does not know.
	Compacted, Purged int64
	// Done and Failed count the automatic compactions of this process.
	Done, Failed uint64
	// Last is when this process last compacted by itself, zero if never; Next when it means to do so again, or to look whether there is
	// something to compact by then, zero if it does not.
	Last, Next time.Time
	// Stall is nil while all goes well.
	Stall *Stall
}

// Stall tells why compaction, or the deletion behind it, does not get on.
type Stall struct {
	Since   time.Time
	Reason  string // one word, in CamelCase
	Message string // what it is and what to do about it
}

// The reasons of a [Stall].
const (
	CompactionFails = "CompactionFails" // automatic compaction ends in an error
	PurgeFails      = "PurgeFails"      // deleting rows ends in an error
	PurgeHeld       = "PurgeHeld"       // somebody reads the rows and does not end
	PurgeHangs      = "PurgeHangs"      // a step does not end
)

// State returns what c is about. It never blocks.
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
	if a.err == nil || now.Sub(a.failing) <= max(2*s.interval(), failPatience) {
		return nil
	}
	return &Stall{a.failing, CompactionFails, fmt.Sprintf(
		"automatic compaction has failed since then, and the history grows; it is tried again every %v, see to the database: %v", s.sample(), a.err)}
}

func (p *purging) stall(now time.Time, readers func() string) *Stall {
	still := now.Sub(p.advanced)
	if p.finished || p.advanced.IsZero() || still <= purgePatience {
		return nil
	}
	where := fmt.Sprintf("rows superseded at or below revision %d are not deleted, and the database grows: ", p.target)
	switch {
	case p.err != nil:
		return &Stall{p.advanced, PurgeFails, where + fmt.Sprintf("see to the database: %v", p.err)}
	case !p.waits:
		return &Stall{p.advanced, PurgeHangs, where + "a step has not ended; see what locks or loads the database"}
	case still <= readPatience:
		return nil
	}
	who := readers()
	if who == "" {
		who = "a long read through another replica"
	}
	return &Stall{p.advanced, PurgeHeld, where + "they are held by " + who + "; end it, or wait for its end"}
}
