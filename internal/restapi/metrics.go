package restapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/internal/exemplar"
)

// Metrics counts requests. It implements [prometheus.Collector].
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	watches  prometheus.Gauge
}

func newMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sqlstore_objects_requests_total",
			Help: "Finished requests of the list/watch API, by verb and HTTP status code; 499 for " +
				"clients that disconnected before the answer.",
		}, []string{"verb", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sqlstore_objects_request_duration_seconds",
			Help: "Duration of requests of the list/watch API, by verb; without watches, which are long-lived.",
			// up to 8 s, like etcd's
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"verb"}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sqlstore_objects_watches",
			Help: "Open watches of the list/watch API.",
		}),
	}
}

func (m *Metrics) count(verb string, code int, took time.Duration, trace string) {
	if code == 0 {
		code = codeClientClosedRequest
	}
	m.requests.WithLabelValues(verb, strconv.Itoa(code)).Inc()
	if verb != verbWatch {
		exemplar.Observe(m.seconds.WithLabelValues(verb), took.Seconds(), trace)
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	m.requests.Describe(out)
	m.seconds.Describe(out)
	m.watches.Describe(out)
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.requests.Collect(out)
	m.seconds.Collect(out)
	m.watches.Collect(out)
}
