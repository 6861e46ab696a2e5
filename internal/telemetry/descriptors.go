package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// descriptors exports file descriptors under the names that etcd uses in addition to process_open_fds and
// process_max_fds. It exports nothing if the operating system does not report them.
type descriptors struct {
	process     *prometheus.Registry
	used, limit *prometheus.Desc
}

func newDescriptors() *descriptors {
	d := &descriptors{
		process: prometheus.NewRegistry(),
		used:    prometheus.NewDesc("os_fd_used", "File descriptors in use.", nil, nil),
		limit:   prometheus.NewDesc("os_fd_limit", "Maximum number of file descriptors.", nil, nil),
	}
	d.process.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return d
}

func (d *descriptors) Describe(out chan<- *prometheus.Desc) {
	out <- d.used
	out <- d.limit
}

func (d *descriptors) Collect(out chan<- prometheus.Metric) {
	families, err := d.process.Gather()
	if err != nil {
		out <- prometheus.NewInvalidMetric(d.used, err)
		return
	}
	named := map[string]*prometheus.Desc{"process_open_fds": d.used, "process_max_fds": d.limit}
	for _, f := range families {
		if desc := named[f.GetName()]; desc != nil {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, f.Metric[0].Gauge.GetValue())
		}
	}
}
