package world

import (
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// stall is a time in which the database stood still.
type stall struct{ begins, ends time.Duration }

// longStall is how long a stall must be for all leases to get their full TTL again: no replica was heard for two
// seconds.
const longStall = 3 * time.Second

// checkLeases checks that leases ended once, with all their keys, and not early.
func (w *World) checkLeases(events []history.Event) {
	leases := w.journal.Leases()
	if err := history.Leases(leases, events, w.committed, true); err != nil {
		w.problems = append(w.problems, err.Error())
	}
	ended := map[string]time.Duration{} // by key
	for _, e := range events {
		if e.Deleted {
			ended[e.Key] = w.committed[e.Revision]
		}
	}
	for _, l := range leases {
		for _, key := range l.Keys {
			if at := ended[key]; at > 0 {
				w.checkStalls(l, at)
			}
		}
	}
}

// checkStalls checks that no stall ended a lease: one that had time left when the stall began has its full TTL from the
// stall's end on.
func (w *World) checkStalls(l history.Lease, at time.Duration) {
	for _, s := range w.stalls {
		if s.ends-s.begins >= longStall && l.Renewed < s.begins && l.Renewed+l.TTL > s.begins && at >= s.begins &&
			at < s.ends+l.TTL {
			w.problems = append(w.problems, fmt.Sprintf("lease %d expired at %v by a stall from %v to %v; it was "+
				"renewed at %v for %v", l.ID, at, s.begins, s.ends, l.Renewed, l.TTL))
		}
	}
}
