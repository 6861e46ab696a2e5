package restapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts requests. It is a [prometheus.Collector].
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	watches  prometheus.Gauge
}

func newMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sqlstore_objects_requests_total",
			Help: "Requests of the list/watch API that have ended, by what they asked for and HTTP's code; 499 for " +
				"clients that left before they were answered.",
		}, []string{"verb", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sqlstore_objects_request_duration_seconds",
			Help: "Duration of requests of the list/watch API, by what they asked for; without watches, which last.",
			// up to 8 s, as etcd's
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"verb"}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sqlstore_objects_watches",
			Help: "Watches of the list/watch API that are open.",
		}),
	}
}

func (m *Metrics) count(verb string, code int, took time.Duration) {
	if code == 0 {
		code = codeGone
	}
	m.requests.WithLabelValues(verb, strconv.Itoa(code)).Inc()
	if verb != verbWatch {
		m.seconds.WithLabelValues(verb).Observe(took.Seconds())
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
