package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/internal/store"
)

// follow exports the work of keeping up with other replicas.
type replica struct {
	read func() (store.ReplicaStats, bool)

	asked, hinted, adopted, ahead, again, confirmed *prometheus.Desc
}

// watchReplica adds the statistics from read, if there are any.
func (m *Metrics) watchReplica(read func() (store.ReplicaStats, bool)) {
	if _, ok := read(); !ok {
		return
	}
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc("sqlstore_"+name, help, nil, nil) }
	m.Registry.MustRegister(&replica{
		read: read,
		asked: desc("tail_queries_total",
			"Queries for other replicas' writes, excluding those that come with a batch."),
		hinted:  desc("tail_hints_total", "Notifications that announced something new."),
		adopted: desc("tail_revisions_total", "Revisions learned from the database."),
		ahead: desc("batches_ahead_total",
			"Batches that began before everything that other replicas had written was published here."),
		again: desc("batch_retries_total",
			"Batches that read the clock again, because the store had restarted or was far behind."),
		confirmed: desc("read_confirmations_total",
			"Commits made for reads, because Postgres had acknowledged none recently."),
	})
}

// Describe implements [prometheus.Collector].
func (r *replica) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.asked, r.hinted, r.adopted, r.ahead, r.again, r.confirmed} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (r *replica) Collect(out chan<- prometheus.Metric) {
	n, _ := r.read()
	out <- prometheus.MustNewConstMetric(r.asked, prometheus.CounterValue, float64(n.Asked))
	out <- prometheus.MustNewConstMetric(r.hinted, prometheus.CounterValue, float64(n.Hinted))
	out <- prometheus.MustNewConstMetric(r.adopted, prometheus.CounterValue, float64(n.Adopted))
	out <- prometheus.MustNewConstMetric(r.ahead, prometheus.CounterValue, float64(n.Ahead))
	out <- prometheus.MustNewConstMetric(r.again, prometheus.CounterValue, float64(n.Again))
	out <- prometheus.MustNewConstMetric(r.confirmed, prometheus.CounterValue, float64(n.Confirmed))
}
