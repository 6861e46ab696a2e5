package history

import "time"

// AllowStale returns the operations as they would be if reads that may miss what was acknowledged in a time before them
// had been sent that much earlier. A refused write has read, too. An answer that is older than that still fits no
// history.
func AllowStale(ops []*Op, bound time.Duration) []*Op {
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
