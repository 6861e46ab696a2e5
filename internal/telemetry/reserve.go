package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchReserve adds the disk reserve, in bytes from held.
func (m *Metrics) WatchReserve(held func() int64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sqlstore_disk_reserve_bytes",
		Help: "Disk space held in reserve: 0 while it is released, or where there was no room for it.",
	}, func() float64 { return float64(held()) }))
}
