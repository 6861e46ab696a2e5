package recent

import (
	"math"
	"time"
)

// Hour is the samples of up to an hour, in their order.
type Hour []Sample

// MarshalJSON returns an object with the times, in seconds since 1970, and as many values of each series, null for a
// gap.
func (h Hour) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 64<<10), `{"time":[`...)
	for i := range h {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendSeconds(b, h[i].at)
	}
	b = append(b, ']')
	for series, name := range names {
		b = append(append(append(b, `,"`...), name...), `":[`...)
		for i := range h {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, h[i].values[series])
		}
		b = append(b, ']')
	}
	return append(b, '}'), nil
}

// Latest returns the last sample; ok is false if there is none.
func (h Hour) Latest() (s *Sample, ok bool) {
	if len(h) == 0 {
		return nil, false
	}
	return &h[len(h)-1], true
}

// shortest is the time from which growth can be told.
const shortest = 10 * time.Minute

// Until returns how long a series takes to reach a limit if it goes on to grow as it did within the hour. ok is false
// if it does not grow, or the values are of less than ten minutes.
func (h Hour) Until(limit float64, of Series) (d time.Duration, ok bool) {
	var first, last *Sample
	for i := range h {
		if _, known := h[i].Value(of); !known {
			continue
		}
		if first == nil {
			first = &h[i]
		}
		last = &h[i]
	}
	if first == nil || last.Time().Sub(first.Time()) < shortest {
		return 0, false
	}
	growth := (last.values[of] - first.values[of]) / last.Time().Sub(first.Time()).Seconds()
	seconds := max(0, limit-last.values[of]) / growth
	if growth <= 0 || seconds > math.MaxInt64/float64(time.Second) {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}
