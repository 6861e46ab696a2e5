package telemetry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/internal/exemplar"
)

// sampleEvery is how many calls of a frequent type one sample represents. Reading the clock and the client's version
// takes 0.2 to 0.4 us and an allocation; a call takes from 22 us.
const sampleEvery = 16

// request counts the calls of one type and samples what is expensive to observe. A sample represents its call and those
// until the next sample: the numbers of calls are always exact, their distribution over durations, outcomes and
// versions is an estimate, unless every call is sampled.
type request struct {
	every   uint64
	clients *clients
	calls   atomic.Uint64

	mu       sync.Mutex
	last     sample // its number is 0 before the first sample
	covered  uint64 // calls accounted for
	versions map[string]uint64
	spreads  []*spread // of durations

	observer prometheus.Observer // of the durations, or nil
	active   prometheus.Gauge    // 1 while a call runs, or nil
}

// sample is one observed call.
type sample struct {
	number   uint64 // of the call
	duration time.Duration
	success  bool
	version  string
	trace    string // its id, "" if the call is not recorded in one
}

// begin starts a call that is a sample.
func (r *request) begin() time.Time {
	if r.active != nil {
		r.active.Inc()
	}
	return time.Now()
}

func (r *request) end(ctx context.Context, number uint64, began time.Time, err error, trace string) {
	took := time.Since(began)
	if r.active != nil {
		r.active.Dec()
	}
	if r.observer != nil {
		exemplar.Observe(r.observer, took.Seconds(), trace)
	}
	r.add(sample{number, took, err == nil, r.clients.version(ctx), trace})
}

func (r *request) add(s sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.every > 1 {
		r.settle(s.number - 1)
	}
	if r.every == 1 || r.covered < r.calls.Load() {
		r.account(&s, 1)
	}
	r.last = s
}

// settle attributes the unaccounted calls up to number to the last sample. Callers hold mu.
func (r *request) settle(number uint64) {
	if r.last.number > 0 && number > r.covered {
		r.account(&r.last, number-r.covered)
	}
}

// account counts a sample as n calls. Callers hold mu.
func (r *request) account(s *sample, n uint64) {
	r.covered += n
	r.versions[s.version] += n
	for _, sp := range r.spreads {
		sp.add(s, n)
	}
}

// spread is a histogram per outcome, whose observations have a weight.
type spread struct {
	desc    *prometheus.Desc
	labels  []string  // those before the outcome's
	bounds  []float64 // in seconds
	success [2]struct {
		counts []uint64 // one more than bounds
		sum    float64
		traces map[int]prometheus.Exemplar // the last one of each bucket
	}
}

func newSpread(desc *prometheus.Desc, bounds []float64, labels ...string) *spread {
	s := &spread{desc: desc, labels: labels, bounds: bounds}
	for i := range s.success {
		s.success[i].counts = make([]uint64, len(bounds)+1)
	}
	return s
}

// add counts a sample as n calls.
func (s *spread) add(of *sample, n uint64) {
	side := &s.success[int(bit(of.success))]
	seconds, i := of.duration.Seconds(), 0
	for i < len(s.bounds) && seconds > s.bounds[i] {
		i++
	}
	side.counts[i] += n
	side.sum += seconds * float64(n)
	if of.trace == "" {
		return
	}
	if side.traces == nil {
		side.traces = map[int]prometheus.Exemplar{}
	}
	side.traces[i] = prometheus.Exemplar{
		Value: seconds, Labels: exemplar.Labels(of.trace), Timestamp: time.Now(),
	}
}

func (s *spread) collect(out chan<- prometheus.Metric) {
	for i, outcome := range []string{"false", "true"} {
		side := &s.success[i]
		buckets, total := make(map[float64]uint64, len(s.bounds)), uint64(0)
		for j, n := range side.counts {
			if total += n; j < len(s.bounds) {
				buckets[s.bounds[j]] = total
			}
		}
		if total == 0 {
			continue
		}
		m := prometheus.MustNewConstHistogram(s.desc, total, side.sum, buckets,
			append(s.labels[:len(s.labels):len(s.labels)], outcome)...)
		if len(side.traces) > 0 {
			m = prometheus.MustNewMetricWithExemplars(m, slices.Collect(maps.Values(side.traces))...)
		}
		out <- m
	}
}
