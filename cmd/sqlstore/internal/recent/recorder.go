// Package recent records a server's metrics in memory: the samples of the last hour, for charts.
//
// A recorder needs fixed memory, about 100 KB, and asks for the metrics that it needs as a scraper would. What it could
// not read, or what did not happen, is a gap: no value, never a zero. Rates and quantiles are those between a sample
// and the last one that succeeded.
package recent

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"time"
)

const (
	// Interval is the time between two samples, unless a test sets another one.
	Interval = 5 * time.Second
	// capacity is how many samples are held: an hour's.
	capacity = int(time.Hour / Interval)
	// timeout limits how long a sample waits for the metrics.
	timeout = 4 * time.Second
)

// Metrics returns the answer to a request for metrics in Prometheus' text format, with the parameters of query.
type Metrics func(ctx context.Context, query url.Values) ([]byte, error)

// Recorder records the metrics of one server.
type Recorder struct {
	ask   Metrics
	every time.Duration
	log   *slog.Logger

	mu     sync.Mutex
	ring   []Sample
	count  int64         // of samples so far; the newest is at (count-1) % len(ring)
	more   chan struct{} // closed by the next sample
	before *reading      // the last that succeeded, nil before the first
	failed bool          // the last sample
}

// New returns a recorder that takes a sample of what ask returns at every interval, once it runs.
func New(ask Metrics, every time.Duration, log *slog.Logger) *Recorder {
	return &Recorder{
		ask: ask, every: every, log: log, ring: make([]Sample, capacity), more: make(chan struct{}),
	}
}

// Run records until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		r.Sample(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sample records one sample, or nothing if ctx ends.
func (r *Recorder) Sample(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := r.ask(limited, url.Values{"name[]": families})
	if ctx.Err() == nil {
		r.record(time.Now(), text, err)
	}
}

// record adds a sample of the metrics in text, or a gap if they could not be read.
func (r *Recorder) record(now time.Time, text []byte, err error) {
	var read *reading
	if err == nil {
		read, err = parse(now, text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && !r.failed {
		r.log.Error("console: the metrics cannot be read", "error", err)
	}
	r.failed = err != nil
	r.ring[r.count%int64(len(r.ring))] = newSample(now, read, r.before)
	if read != nil {
		r.before = read
	}
	r.count++
	close(r.more)
	r.more = make(chan struct{})
}

// Since returns the recorded samples after the first n, n for the next call, and a channel that is closed when there
// are more. Samples that have been overwritten are left out.
func (r *Recorder) Since(n int64) (samples []Sample, next int64, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := max(n, r.count-int64(len(r.ring))); i < r.count; i++ {
		samples = append(samples, r.ring[i%int64(len(r.ring))])
	}
	return samples, r.count, r.more
}

// Count returns how many samples were recorded so far.
func (r *Recorder) Count() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// Hour returns the samples of the hour before the newest one, in the order of their times. There are older ones after
// the machine has slept, and later ones after its clock was set back.
func (r *Recorder) Hour() Hour {
	samples, _, _ := r.Since(0)
	for i := len(samples) - 1; i > 0; i-- {
		if !samples[i-1].Time().Before(samples[i].Time()) {
			samples = samples[i:]
			break
		}
	}
	for len(samples) > 0 && samples[len(samples)-1].Time().Sub(samples[0].Time()) > time.Hour {
		samples = samples[1:]
	}
	return samples
}
