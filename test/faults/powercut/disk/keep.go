package disk

import "math/rand/v2"

// kept says which of a file's changes reach the disk. Plain randomness would almost never lose exactly one, or all of
// them, so there are several ways.
type kept struct {
	r     *rand.Rand
	odds  []int // of each change: how many in whole of its sectors are kept
	sizes int   // the first so many changes of the size are kept
}

// whole is the odds of a change that is kept.
const whole = 4

func keepSome(r *rand.Rand, changes int) kept {
	k := kept{r: r, odds: make([]int, changes), sizes: r.IntN(changes + 1)}
	torn := 1 + r.IntN(whole-1)
	switch one := r.IntN(changes); r.IntN(6) {
	case 0: // nothing
		k.sizes = 0
	case 1: // everything
		k.fill(whole)
		k.sizes = changes
	case 2: // up to a torn one
		for i := range one {
			k.odds[i] = whole
		}
		k.odds[one] = torn
		k.sizes = one + r.IntN(2)
	case 3: // everything but one
		k.fill(whole)
		k.odds[one] = torn * r.IntN(2)
		k.sizes = changes
	case 4: // some
		for i := range k.odds {
			k.odds[i] = whole * r.IntN(2)
		}
	default: // some sectors of each
		k.fill(torn)
	}
	return k
}

func (k kept) fill(odds int) {
	for i := range k.odds {
		k.odds[i] = odds
	}
}

// keeps decides about a sector of a change.
func (k kept) keeps(change int) bool {
	switch odds := k.odds[change]; odds {
	case 0:
		return false
	case whole:
		return true
	default:
		return k.r.IntN(whole) < odds
	}
}
