package store

import "time"

const (
	// paceTime is about how long a batch of one of several replicas takes to commit: the others wait for the clock
	// meanwhile, each of them for all the others.
	paceTime = 300 * time.Millisecond
	// leastBatch and mostBatch bound the bytes of such a batch: the rest of what a commit costs is the same for smaller
	// ones, and larger ones save hardly anything.
	leastBatch = 512 << 10
	mostBatch  = 4 << 20
)

// pace bounds the bytes of the next batch by what the last ones took.
type pace struct{ bytes int64 }

func newPace() pace { return pace{1 << 20} }

// committed takes the duration of a batch. One with room left says nothing about larger ones.
func (p *pace) committed(bytes int64, took time.Duration) {
	if took <= paceTime && bytes < p.bytes {
		return
	}
	fit := int64(float64(bytes) * float64(paceTime) / float64(max(took, 1)))
	p.bytes = max(leastBatch, min(fit, 2*p.bytes, mostBatch))
}
