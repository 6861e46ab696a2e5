package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/backend"
)

// purges measures physical compactions, each of which takes one or more steps.
type purges struct {
	pause, total prometheus.Histogram // milliseconds
	rows         prometheus.Counter
	last         prometheus.Gauge
	spent        time.Duration // by the steps so far of the current compaction
	done         int64         // the revision of the last one completed
}

func newPurges(m *Metrics) purges {
	p := purges{
		pause: m.histogram("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds",
			"Duration of the steps that delete superseded rows.", prometheus.ExponentialBuckets(1, 2, 13)),
		total: m.histogram("etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
			"Duration of all steps of a compaction, without the pauses between them.",
			prometheus.ExponentialBuckets(100, 2, 14)),
		rows: m.counter("etcd_debugging_mvcc_db_compaction_keys_total", "Superseded rows deleted."),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "etcd_debugging_mvcc_db_compaction_last",
			Help: "When rows were last deleted, in seconds since 1970; 0 before that.",
		}),
	}
	m.Registry.MustRegister(p.last)
	return p
}

// Purged implements [store.Observer].
func (m *Metrics) Purged(took time.Duration, r backend.PurgeResult) {
	p := &m.purges
	p.spent += took
	if r.Removed > 0 {
		p.pause.Observe(float64(took) / float64(time.Millisecond))
		p.rows.Add(float64(r.Removed))
		p.last.SetToCurrentTime()
	}
	if !r.Done {
		return
	}
	if r.Through != p.done { // while it frees space, each check finds it done again
		p.done = r.Through
		p.total.Observe(float64(p.spent) / float64(time.Millisecond))
	}
	p.spent = 0
}
