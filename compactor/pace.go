package compactor

import "time"

// A write that comes while a step deletes rows waits for it: on SQLite for its end, as one connection writes; on Postgres for a share of
// the disk and the processors. So the longest step, not the sum of all, is what a slow write notices, and a step is
// as large as takes stepTime on this machine. What is left of the time belongs to the writes: the rest after a step is restFactor
// times as long.
//
// A purge that falls behind for good would let the database grow for ever. So whenever a compaction comes while more rows are
// left than at the one before, the rests are halved, and when there is nothing left to halve, the steps get longer.
const (
	stepTime   = 4 * time.Millisecond
	restFactor = 4
	// shortestRest and longestRest bound the rest between two steps.
	shortestRest = 2 * time.Millisecond
	longestRest  = 10 * time.Second
	// firstUnits is how many rows, or pages given back, the first step takes; minUnits and maxUnits bound what it may become.
	firstUnits = 64
	minUnits   = 8
	maxUnits   = 2000
	// maxBehind is how often the pace is raised: rests of 4, 2, 1 and 0 times the step, then steps of twice to 16 times the length.
	maxBehind = 7
)

// pace decides how large the next step is, and how long the rest after the last one.
type pace struct {
	units  int
	behind int
}

func newPace() pace { return pace{units: firstUnits} }

// took learns from a step of p.units that took d and returns the rest after it.
func (p *pace) took(d time.Duration) (rest time.Duration) {
	target, factor := stepTime, restFactor>>p.behind
	if factor == 0 {
		target <<= p.behind - 3
	}
	ideal := maxUnits
	if d > 0 {
		ideal = int(min(float64(p.units)*float64(target)/float64(d), maxUnits))
	}
	// One step that took long for another reason does not count for much.
	p.units = min(max(ideal, p.units/2, minUnits), p.units*3/2, maxUnits)
	return min(max(d*time.Duration(factor), shortestRest), longestRest)
}

// hurry raises the pace.
func (p *pace) hurry() { p.behind = min(p.behind+1, maxBehind) }
