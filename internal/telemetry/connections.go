package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/backend"
)

// connections exports how a backend's connections are used.
type connections struct {
	read                      func() backend.Connections
	open, most, waits, opened *prometheus.Desc
}

// WatchConnections adds the database connections from read.
func (m *Metrics) WatchConnections(read func() backend.Connections) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sqlstore_database_"+name, help, labels, nil)
	}
	m.Registry.MustRegister(&connections{
		read:   read,
		open:   desc("connections", "Open connections to the database, by use.", "state"),
		most:   desc("connections_max", "Maximum number of open connections to the database."),
		waits:  desc("connection_waits_total", "How often no connection was idle when one was needed."),
		opened: desc("connections_opened_total", "Connections to the database opened so far."),
	})
}

// Describe implements [prometheus.Collector].
func (c *connections) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.open, c.most, c.waits, c.opened} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *connections) Collect(out chan<- prometheus.Metric) {
	n := c.read()
	out <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(n.InUse), "in_use")
	out <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(n.Idle), "idle")
	out <- prometheus.MustNewConstMetric(c.most, prometheus.GaugeValue, float64(n.Max))
	out <- prometheus.MustNewConstMetric(c.waits, prometheus.CounterValue, float64(n.Waits))
	out <- prometheus.MustNewConstMetric(c.opened, prometheus.CounterValue, float64(n.Opened))
}
