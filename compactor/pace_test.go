package compactor

import (
	"testing"
	"time"
)

// settle makes p take steps with a given time per row, and returns the rows per second and the longest step.
func settle(p *pace, each time.Duration, blocking bool) (perSecond float64, longest time.Duration) {
	var rows int
	var spent time.Duration
	for n := range 200 {
		units := p.units
		d, blocked := time.Duration(units)*each, time.Duration(0)
		if blocking {
			blocked = d
		}
		pause := p.adapt(units, d, blocked)
		if n >= 100 {
			rows += units
			spent += d + pause
			longest = max(longest, d)
		}
	}
	return float64(rows) / spent.Seconds(), longest
}

// Each time that deletion falls behind it becomes faster; until then, no step exceeds its target.
func TestPaceRises(t *testing.T) {
	for _, tt := range []struct {
		each     time.Duration
		blocking bool
		longest  time.Duration
	}{{20 * time.Microsecond, true, blockTime}, {20 * time.Microsecond, false, stepTime}, {
		200 * time.Microsecond,
		false, stepTime,
	}} {
		p := newPace()
		last := 0.0
		for behind := range maxBehind {
			rate, longest := settle(&p, tt.each, tt.blocking)
			if rate <= last {
				t.Errorf("%v a row: %.0f rows a second when behind %d times, %.0f before", tt.each, rate, behind, last)
			}
			if behind == 0 && longest > tt.longest {
				t.Errorf("%v a row: steps of %v, want %v at most", tt.each, longest, tt.longest)
			}
			last = rate
			p.hurry()
		}
	}
}

// Steps with little work are quick, and say nothing about the time of larger ones.
func TestPaceOfSmallSteps(t *testing.T) {
	p := newPace()
	settle(&p, 20*time.Microsecond, true)
	before := p.units
	for range 100 {
		p.adapt(0, 2*time.Millisecond, 0)
		p.adapt(1, 80*time.Microsecond, 80*time.Microsecond)
	}
	if p.units != before {
		t.Errorf("steps of %d rows became %d", before, p.units)
	}
}

// A step that takes much longer than usual makes the next ones smaller, and the pause longer.
func TestPaceOfOneSlowStep(t *testing.T) {
	p := newPace()
	settle(&p, 20*time.Microsecond, true)
	before := p.units
	if pause := p.adapt(p.units, time.Second, time.Second); pause != pauseFactor*time.Second {
		t.Errorf("a pause of %v after a second", pause)
	}
	if p.units >= before || p.units < before/2 {
		t.Errorf("steps of %d rows became %d", before, p.units)
	}
}
