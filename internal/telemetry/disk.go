package telemetry

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// WatchReserve adds the disk reserve, in bytes from held.
func (m *Metrics) WatchReserve(held func() int64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sqlstore_disk_reserve_bytes",
		Help: "Disk space held in reserve: 0 while it is released, or where there was no room for it.",
	}, func() float64 { return float64(held()) }))
}

// WatchFreeDisk adds the free space of the database's disk, in bytes from free.
func (m *Metrics) WatchFreeDisk(free func() (int64, error)) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sqlstore_disk_free_bytes",
		Help: "Free space of the disk with the database, without the reserve; NaN while it is not known.",
	}, func() float64 {
		n, err := free()
		if err != nil {
			return math.NaN() // 0 would look like a full disk
		}
		return float64(n)
	}))
}
