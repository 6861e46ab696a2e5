package history

import (
	"fmt"
	"time"
)

// Answers checks [Writes], [Reads] and [Linearizable] with reads that may be as old as stale, and returns the fate of
// each write. It looks for linearizations in at most the time bound.
func Answers(base Base, ops []*Op, events []Event, stale, bound time.Duration) (Fate, error) {
	ops = allowStale(ops, stale)
	fate, err := Writes(ops, events)
	if err != nil {
		return nil, fmt.Errorf("writes: %w", err)
	}
	if err := Reads(base, ops, events); err != nil {
		return fate, fmt.Errorf("reads: %w", err)
	}
	return fate, Linearizable(base, ops, fate, bound)
}

// allowStale moves reads that may miss recent acknowledgements to an earlier start, by the bound. A refused write
// counts as a read. An answer that is older than the bound still contradicts every history.
func allowStale(ops []*Op, bound time.Duration) []*Op {
	if bound == 0 {
		return ops
	}
	out := make([]*Op, len(ops))
	for i, o := range ops {
		c := *o
		if !c.Kind.Writes() || c.Outcome == Refused {
			c.Start = max(0, c.Start-bound)
		}
		out[i] = &c
	}
	return out
}
