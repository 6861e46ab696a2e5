package recent

import "math"

// bucket counts the observations up to an upper bound.
type bucket struct{ bound, n float64 }

// buckets are those of a histogram, in order of their bounds, the last of which is infinite.
type buckets []bucket

// since returns the observations after before; nothing if the histogram started again.
func (b buckets) since(before buckets) buckets {
	if len(before) == 0 {
		return b // its first observations made it
	}
	if len(before) != len(b) {
		return nil
	}
	out := make(buckets, len(b))
	for i := range b {
		if b[i].bound != before[i].bound || b[i].n < before[i].n {
			return nil
		}
		out[i] = bucket{b[i].bound, b[i].n - before[i].n}
	}
	return out
}

// quantile estimates a quantile as Prometheus' histogram_quantile does: linearly within its bucket, from 0 in the first
// one, and not above the largest finite bound. It returns NaN without observations.
func (b buckets) quantile(q float64) float64 {
	if len(b) < 2 || b[len(b)-1].n <= 0 || !math.IsInf(b[len(b)-1].bound, 1) {
		return math.NaN()
	}
	rank := q * b[len(b)-1].n
	i := 0
	for i < len(b)-1 && b[i].n < rank {
		i++
	}
	switch {
	case i == len(b)-1:
		return b[i-1].bound
	case i == 0:
		return b[0].bound * rank / b[0].n
	}
	start, below := b[i-1].bound, b[i-1].n
	return start + (b[i].bound-start)*(rank-below)/(b[i].n-below)
}
