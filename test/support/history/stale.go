package history

import "time"

// AllowStale moves reads that may miss recent acknowledgements to an earlier start, by the bound. A refused write
// counts as a read. An answer that is older than the bound still contradicts every history.
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
