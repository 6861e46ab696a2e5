package store

import (
	"testing"
	"time"
)

// Full batches converge on the target time, however fast the database is, and grow again when it gets faster.
func TestPace(t *testing.T) {
	p := newPace()
	committed := func(perSecond int64) time.Duration {
		return 5*time.Millisecond + time.Duration(float64(p.bytes)/float64(perSecond)*float64(time.Second))
	}
	for _, perSecond := range []int64{100 << 20, 2 << 20, 8 << 20, 100 << 10, 100 << 20} {
		for range 10 {
			p.committed(p.bytes, committed(perSecond))
		}
		d := committed(perSecond)
		if d > paceTime*11/10 && p.bytes != leastBatch || d < paceTime*9/10 && p.bytes != mostBatch {
			t.Errorf("at %d bytes per second a batch has %d bytes and takes %v", perSecond, p.bytes, d)
		}
	}
	was := p.bytes
	p.committed(1, paceTime)
	if p.bytes != was {
		t.Errorf("a batch of one byte makes the pace %d bytes, was %d", p.bytes, was)
	}
}
