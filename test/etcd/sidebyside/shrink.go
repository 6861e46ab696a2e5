package sidebyside

import (
	"slices"
	"time"
)

// shrink leaves steps out as long as fails says that the rest still fails, and until the deadline.
// fails must be given steps in their order.
func shrink(steps []int, deadline time.Time, fails func([]int) bool) []int {
	for size := len(steps) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(steps); {
			if time.Now().After(deadline) {
				return steps
			}
			rest := slices.Delete(slices.Clone(steps), from, from+size)
			if len(rest) > 0 && fails(rest) {
				steps = rest
				continue
			}
			from += size
		}
	}
	return steps
}
