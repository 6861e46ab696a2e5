package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificates exports when the certificates in use expire.
type certificates struct {
	read func() map[string]time.Time // by file
	ends *prometheus.Desc
}

// WatchCertificates adds the expiry times from read: by file, when the certificate in use expires.
func (m *Metrics) WatchCertificates(read func() map[string]time.Time) {
	m.Registry.MustRegister(&certificates{read, prometheus.NewDesc("sqlstore_certificate_expiry_timestamp_seconds",
		"When the certificate in use expires, in seconds since 1970: the server's own, and the authority of "+
			"its clients'.",
		[]string{"file"}, nil)})
}

// Describe implements [prometheus.Collector].
func (c *certificates) Describe(out chan<- *prometheus.Desc) { out <- c.ends }

// Collect implements [prometheus.Collector].
func (c *certificates) Collect(out chan<- prometheus.Metric) {
	for file, end := range c.read() {
		out <- prometheus.MustNewConstMetric(c.ends, prometheus.GaugeValue, seconds(end), file)
	}
}
