package load

import (
	"slices"
	"time"
)

// samples are the results of one caller's requests.
type samples struct {
	took   []time.Duration // of those that succeeded
	failed int
	first  error
}

func (s *samples) add(took time.Duration, err error) {
	if err == nil {
		s.took = append(s.took, took)
		return
	}
	s.failed++
	if s.first == nil {
		s.first = err
	}
}

// summarize adds up the samples of all callers.
func summarize(phase string, all []samples, elapsed time.Duration) Result {
	r := Result{Phase: phase}
	var took []time.Duration
	for _, s := range all {
		took = append(took, s.took...)
		r.Failed += s.failed
		if s.first != nil && r.Error == "" {
			r.Error = s.first.Error()
		}
	}
	r.Requests = len(took)
	if len(took) == 0 {
		return r
	}
	slices.Sort(took)
	r.PerSecond = float64(len(took)) / elapsed.Seconds()
	at := func(percent int) time.Duration { return took[(len(took)*percent+99)/100-1] }
	r.P50, r.P90, r.P99, r.Max = at(50), at(90), at(99), at(100)
	return r
}
