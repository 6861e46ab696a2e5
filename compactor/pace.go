package compactor

import "time"

// A write that arrives during a step waits for it. On SQLite it waits for the end of the step, because only one
// connection writes, and for the disk to absorb what the step left in the log; on Postgres it waits for a share of the
// disk and the processors. So the slowest writes are delayed by the longest step, not by the sum of all steps. A step
// is therefore sized to block writes for blockTime on this machine or, if it does not block them, to take stepTime,
// most of which may be network time. The remaining time belongs to the writes: the pause after a step is pauseFactor
// times as long. A step that fails may have been too long for the database's timeouts, so the next one is half as long.
//
// A deleted row costs the log nearly as much as a written one, and a log that fills sooner is checkpointed more often,
// which also blocks writes. So the rows of a compaction are spread over most of the time until the next one is
// expected, judging by the previous interval; if that is unknown, only the pauses count.
//
// A purge that falls behind permanently would let the database grow without limit. So if a compaction arrives while
// more rows are left than at the previous one, the pauses are halved, and once they cannot be halved, the steps get
// longer.
const (
	blockTime   = 300 * time.Microsecond
	stepTime    = 5 * time.Millisecond
	pauseFactor = 4
	// spread is the part of the time between two compactions over which rows are deleted.
	spread = 0.9
	// longestSpread is the longest pause for that purpose.
	longestSpread = time.Second
	// minPause and maxPause limit the pause between two steps; the former is halved with the pauses.
	minPause = 2 * time.Millisecond
	maxPause = 10 * time.Second
	// firstUnits is how many rows, or freed pages, the first step handles; minUnits and maxUnits limit later steps,
	// except after a failure.
	firstUnits = 64
	minUnits   = 8
	maxUnits   = 2000
	// maxBehind is how many times the pace can be raised: pauses of 4, 2, 1 and 0 times the step, then steps of 2 to 16
	// times the length. With rows that take 20 us each on SQLite, that is 7,000 rows per second at first and 27,000
	// without pauses.
	maxBehind = 7
)

// pace decides how large the next step is, and how long to pause after the last one.
type pace struct {
	units  int
	behind int
}

func newPace() pace { return pace{units: firstUnits} }

// adapt adapts the pace to a step of n units (p.units, if that many were left) that took d and blocked writes for
// blocked. It returns the pause after the step.
func (p *pace) adapt(n int, d, blocked time.Duration) (pause time.Duration) {
	longer, factor := 0, pauseFactor>>p.behind
	if factor == 0 {
		longer = p.behind - 3
	}
	// relative to the longest step allowed
	share := max(float64(d)/float64(stepTime<<longer), float64(blocked)/float64(blockTime<<longer))
	ideal := p.units
	if n > 0 && (share > 1 || n >= p.units) { // a step that was short because there was little to do proves nothing
		ideal = int(min(float64(n)/max(share, 1e-3), maxUnits))
	}
	// One step that was slow for another reason must not count for much.
	p.units = min(max(ideal, p.units/2, minUnits), p.units*3/2+1, maxUnits)
	return min(max(d*time.Duration(factor), minPause>>min(p.behind, 3)), maxPause)
}

// failed makes the next step half as long, even shorter than minUnits. It grows again with each one that succeeds.
func (p *pace) failed() { p.units = max(p.units/2, 1) }

// hurry raises the pace.
func (p *pace) hurry() { p.behind = min(p.behind+1, maxBehind) }

// plan spreads the rest of a compaction over the time until the next one.
type plan struct {
	seen     time.Time // when the compaction arrived
	deadline time.Time // when its rows should be gone; zero when the next one is not expected
}

// next records that a compaction has arrived.
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

// pause returns how long to pause after a step that advanced by done revisions, when left revisions remain.
func (p *plan) pause(now time.Time, done, left int64) time.Duration {
	remains := p.deadline.Sub(now)
	if p.deadline.IsZero() || remains <= 0 || done <= 0 || left <= 0 {
		return 0
	}
	return min(time.Duration(float64(remains)*float64(done)/float64(left)), longestSpread)
}
