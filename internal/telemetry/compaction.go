package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/compactor"
)

// compaction exports the progress of compaction and of the deletion of compacted rows.
type compaction struct {
	read                                                       func() compactor.State
	total, compacted, purged, backlog, stalled, last, next, on *prometheus.Desc
}

// WatchCompaction adds the compactor's state from read. Replicas that do not compact omit what only the compacting one
// knows.
func (m *Metrics) WatchCompaction(read func() compactor.State) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sqlstore_compaction_"+name, help, labels, nil)
	}
	m.Registry.MustRegister(&compaction{
		read: read,
		total: desc("automatic_total", "Automatic compactions that this process tried, by result.",
			"result"),
		compacted: desc("revision", "The oldest revision that can be read."),
		purged:    desc("purged_revision", "The revision up to which superseded rows are deleted."),
		backlog:   desc("backlog_revisions", "Compacted revisions whose superseded rows are not deleted yet."),
		stalled: desc("stalled", "1 when compaction, or the deletion of rows, makes no progress: see /status.",
			"reason"),
		last: desc("last_timestamp_seconds",
			"When this process last compacted automatically, in seconds since 1970; 0 before that."),
		next: desc("next_timestamp_seconds", "When it plans to do so again; 0 if it does not."),
		on:   desc("leads", "1 when this process is the one that compacts and deletes rows."),
	})
}

// Describe implements [prometheus.Collector].
func (c *compaction) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.total, c.compacted, c.purged, c.backlog, c.stalled, c.last, c.next, c.on} {
		out <- d
	}
}

// stallReasons are those of [compactor.Stall].
var stallReasons = []string{compactor.CompactionFails, compactor.PurgeFails, compactor.PurgeHeld, compactor.PurgeHangs}

// Collect implements [prometheus.Collector].
func (c *compaction) Collect(out chan<- prometheus.Metric) {
	s := c.read()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	out <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, float64(s.Done), "success")
	out <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, float64(s.Failed), "failure")
	gauge(c.compacted, float64(s.Compacted))
	if s.Purged >= 0 {
		gauge(c.purged, float64(s.Purged))
		gauge(c.backlog, float64(max(0, s.Compacted-s.Purged)))
	}
	for _, reason := range stallReasons {
		gauge(c.stalled, bit(s.Stall != nil && s.Stall.Reason == reason), reason)
	}
	gauge(c.last, seconds(s.Last))
	gauge(c.next, seconds(s.Next))
	gauge(c.on, bit(s.Leads))
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
