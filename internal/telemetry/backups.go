package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/internal/backup"
)

// backups exports the state of the backups.
type backups struct {
	read                                          func() backup.State
	saved, revision, files, rows, bytes, failures *prometheus.Desc
}

// WatchBackups adds the state of the backups.
func (m *Metrics) WatchBackups(read func() backup.State) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sqlstore_backup_"+name, help, labels, nil)
	}
	m.Registry.MustRegister(&backups{
		read: read,
		saved: desc("saved_timestamp_seconds", "When everything committed was last saved, in seconds since 1970; 0 on "+
			"a replica that makes no backups."),
		revision: desc("revision", "Revision up to which everything is saved; 0 on a replica that makes no backups."),
		files:    desc("files_total", "Files written, by kind.", "kind"),
		rows:     desc("rows_total", "Rows written."),
		bytes:    desc("bytes_total", "Bytes of keys and values written, before compression."),
		failures: desc("failures_total", "Attempts that failed."),
	})
}

// Describe implements [prometheus.Collector].
func (b *backups) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{b.saved, b.revision, b.files, b.rows, b.bytes, b.failures} {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (b *backups) Collect(out chan<- prometheus.Metric) {
	s := b.read()
	saved := 0.0
	if s.Leads && !s.Saved.IsZero() {
		saved = seconds(s.Saved)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(b.saved, saved)
	gauge(b.revision, float64(s.Revision))
	counter(b.files, s.Fulls, "full")
	counter(b.files, s.Files-s.Fulls, "changes")
	counter(b.rows, s.Rows)
	counter(b.bytes, s.Bytes)
	counter(b.failures, s.Failures)
}
