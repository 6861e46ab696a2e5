package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/internal/store"
)

// follow tells what keeping in step with other replicas takes.
type follow struct {
	read func() (store.FollowStats, bool)

	asked, hinted, adopted, ahead, again, confirmed *prometheus.Desc
}

// watchFollowing adds what read tells, if it tells anything.
func (m *Metrics) watchFollowing(read func() (store.FollowStats, bool)) {
	if _, ok := read(); !ok {
		return
	}
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc("sqlstore_"+name, help, nil, nil) }
	m.Registry.MustRegister(&follow{
		read: read,
		asked: desc("tail_queries_total",
			"Queries for what other replicas wrote, those that come with a batch left out."),
		hinted:  desc("tail_hints_total", "Notifications that told of something new."),
		adopted: desc("tail_revisions_total", "Revisions that were learned from the database."),
		ahead: desc("batches_ahead_total",
			"Batches that began before all that other replicas had written was published here."),
		again: desc("batch_retries_total",
			"Batches that took the clock again, as the store started anew or was far behind."),
		confirmed: desc("read_confirmations_total",
			"Commits that were made for reads, as Postgres had acknowledged none lately."),
	})
}

// Describe implements [prometheus.Collector].
func (f *follow) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.asked, f.hinted, f.adopted, f.ahead, f.again, f.confirmed} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *follow) Collect(out chan<- prometheus.Metric) {
	n, _ := f.read()
	out <- prometheus.MustNewConstMetric(f.asked, prometheus.CounterValue, float64(n.Asked))
	out <- prometheus.MustNewConstMetric(f.hinted, prometheus.CounterValue, float64(n.Hinted))
	out <- prometheus.MustNewConstMetric(f.adopted, prometheus.CounterValue, float64(n.Adopted))
	out <- prometheus.MustNewConstMetric(f.ahead, prometheus.CounterValue, float64(n.Ahead))
	out <- prometheus.MustNewConstMetric(f.again, prometheus.CounterValue, float64(n.Again))
	out <- prometheus.MustNewConstMetric(f.confirmed, prometheus.CounterValue, float64(n.Confirmed))
}
