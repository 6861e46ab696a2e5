package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchReserve adds the disk reserve, in bytes from held.
func (m *Metrics) WatchReserve(held func() int64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sqlstore_disk_reserve_bytes",
		Help: "Disk space held in reserve: 0 while it is released, or where there was no room for it.",
	}, func() float64 { return float64(held()) }))
}

// freeDisk exports the free space of the database's disk. It exports nothing while that is not known: 0 would look like
// a full disk, and NaN would make every trend that contains it NaN.
type freeDisk struct {
	read  func() (int64, error)
	bytes *prometheus.Desc
}

// WatchFreeDisk adds the free space of the database's disk, in bytes from free.
func (m *Metrics) WatchFreeDisk(free func() (int64, error)) {
	m.Registry.MustRegister(&freeDisk{free, prometheus.NewDesc("sqlstore_disk_free_bytes",
		"Free space of the disk with the database, without the reserve; absent while it is not known.", nil, nil)})
}

// Describe implements [prometheus.Collector].
func (f *freeDisk) Describe(out chan<- *prometheus.Desc) { out <- f.bytes }

// Collect implements [prometheus.Collector].
func (f *freeDisk) Collect(out chan<- prometheus.Metric) {
	if n, err := f.read(); err == nil {
		out <- prometheus.MustNewConstMetric(f.bytes, prometheus.GaugeValue, float64(n))
	}
}
