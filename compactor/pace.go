package compactor

import "time"

// A write that comes while a step deletes rows waits for it: on SQLite for its end, as one connection writes, and for the disk to take
// what the step has left in the log; on Postgres for a share of the disk and the processors. So the longest step, not the sum of all, is
// what a slow write notices, and a step is as large as keeps writes away for blockTime on this machine, or, where it does not, takes
// stepTime, most of which may be on the way to the database. What is left of the time belongs to the writes: the rest after a step is
// restFactor times as long.
//
// A deleted row costs the log nearly as much as one written, and a log that fills sooner is copied into the database more often, for
// which writes wait, too. So the rows of a compaction are spread over most of the time until the next one is expected,
// which is when the last came before this one; where that is not known, only the rests count.
//
// A purge that falls behind for good would let the database grow for ever. So whenever a compaction comes while more rows are
// left than at the one before, the rests are halved, and when there is nothing left to halve, the steps get longer.
const (
	blockTime  = 300 * time.Microsecond
	stepTime   = 5 * time.Millisecond
	restFactor = 4
	// spread is the part of the time between two compactions in which the rows are to go.
	spread = 0.9
	// longestSpread is the longest rest for the sake of that.
	longestSpread = time.Second
	// shortestRest and longestRest bound the rest between two steps; the former is halved with the rests.
	shortestRest = 2 * time.Millisecond
	longestRest  = 10 * time.Second
	// firstUnits is how many rows, or pages given back, the first step takes; minUnits and maxUnits bound what it may become.
	firstUnits = 64
	minUnits   = 8
	maxUnits   = 2000
	// maxBehind is how often the pace is raised: rests of 4, 2, 1 and 0 times the step, then steps of twice to 16 times the length. With
	// rows of 20 us on SQLite, that is 7,000 a second at first and 27,000 without rests.
	maxBehind = 7
)

// pace decides how large the next step is, and how long the rest after the last one.
type pace struct {
	units  int
	behind int
}

func newPace() pace { return pace{units: firstUnits} }

// took learns from a step of n units, which were p.units if there were so many, that took d, for blocked of which nobody could write. It
// returns the rest after it.
func (p *pace) took(n int, d, blocked time.Duration) (rest time.Duration) {
	longer, factor := 0, restFactor>>p.behind
	if factor == 0 {
		longer = p.behind - 3
	}
	share := max(float64(d)/float64(stepTime<<longer), float64(blocked)/float64(blockTime<<longer)) // of the longest step
	ideal := p.units
	if n > 0 && (share > 1 || n >= p.units) { // what took no time as there was little to do says nothing of more
		ideal = int(min(float64(n)/max(share, 1e-3), maxUnits))
	}
	// One step that took long for another reason does not count for much.
	p.units = min(max(ideal, p.units/2, minUnits), p.units*3/2, maxUnits)
	return min(max(d*time.Duration(factor), shortestRest>>min(p.behind, 3)), longestRest)
}

// hurry raises the pace.
func (p *pace) hurry() { p.behind = min(p.behind+1, maxBehind) }

// plan spreads what is left of a compaction over the time until the next one.
type plan struct {
	seen     time.Time // when the compaction came
	deadline time.Time // when its rows should be gone; zero when the next one is not expected
}

// next tells of a compaction that has come.
func (p *plan) next(now time.Time) {
	every := now.Sub(p.seen)
	if p.seen.IsZero() {
		every = 0
	}
	p.seen, p.deadline = now, time.Time{}
	if every > 0 {
		p.deadline = now.Add(time.Duration(spread * float64(every)))
	}
}

// rest is how long to rest after a step that came forward by done revisions, when left of them remain.
func (p *plan) rest(now time.Time, done, left int64) time.Duration {
	remains := p.deadline.Sub(now)
	if p.deadline.IsZero() || remains <= 0 || done <= 0 || left <= 0 {
		return 0
	}
	return min(time.Duration(float64(remains)*float64(done)/float64(left)), longestSpread)
}
