package sidebyside

import (
	"slices"
	"time"
)

// shrink removes steps while fails reports that the rest still fails, until the deadline. It passes the steps to fails
// in their order.
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
