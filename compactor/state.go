package compactor

import "time"

// State is what a compactor is about, for metrics, /readyz?verbose and /status.
type State struct {
	Mode      Mode
	Retention string
	// Leads says that this process is the one that compacts and deletes.
	Leads bool
	// Compacted is the oldest revision that can be read; Purged the one below which the superseded rows are gone, -1 when this
	// process does not know.
	Compacted, Purged int64
	// Last is when this process last compacted, zero if never; Next when it means to do so again, zero if not known.
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

// State returns what c is about. It never blocks.
func (c *Compactor) State() State {
	return State{Leads: c.engine.Leads(), Compacted: c.engine.Compacted(), Purged: -1}
}
