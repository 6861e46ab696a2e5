// Package telemetry is what an operator sees from outside: Prometheus metrics under etcd's names wherever etcd has one, so
// that its dashboards and alerts work, sqlstore's own beside them, and the health endpoints.
//
// Counters on hot paths are resolved once; what can be read at scrape time is.
package telemetry

import (
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sqlstore/sqlstore/store"
)

// slowCommit is how long a commit takes that counts as slow, as in etcd.
const slowCommit = 100 * time.Millisecond

// Metrics is the registry of one server. It is the store's [store.Observer].
type Metrics struct {
	Registry *prometheus.Registry

	calls  calls
	health healthMetrics

	puts, deletes              prometheus.Counter
	putBytes                   prometheus.Gauge // as in etcd, though it only grows
	granted, revoked           prometheus.Counter
	events, operations, slow   prometheus.Counter
	fsync, commit              prometheus.Histogram
	batchOperations, batchRows prometheus.Histogram
}

// Config describes the server to New.
type Config struct {
	// Version is the etcd version served, SQLStore the program's own.
	Version, SQLStore string
	// Extensive adds histograms of the calls' durations, as etcd's --metrics=extensive.
	Extensive bool
}

// New makes a registry. Before it is scraped, [Metrics.Watch] and [Metrics.Attach] are to be called.
func New(cfg Config) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	m.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.calls = newCalls(m, cfg.Extensive)
	m.health = newHealthMetrics(m)
	m.puts = m.counter("etcd_mvcc_put_total", "Rows put, one for each key and transaction.")
	m.deletes = m.counter("etcd_mvcc_delete_total", "Keys deleted.")
	m.putBytes = prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcd_debugging_mvcc_total_put_size_in_bytes", Help: "Bytes of all values put."})
	m.Registry.MustRegister(m.putBytes)
	m.granted = m.counter("etcd_debugging_lease_granted_total", "Leases granted.")
	m.revoked = m.counter("etcd_debugging_lease_revoked_total", "Leases revoked, those that expired included.")
	m.events = m.counter("etcd_debugging_mvcc_events_total", "Events handed to watch streams.")
	m.operations = m.counter("sqlstore_operations_total", "Operations of committed batches, failed compares included.")
	m.slow = m.counter("etcd_server_slow_apply_total", "Commits that took longer than 100 ms.")
	seconds := prometheus.ExponentialBuckets(0.001, 2, 14) // etcd's, up to 8 s
	m.fsync = m.histogram("etcd_disk_wal_fsync_duration_seconds", "Duration of the commits, each of which is synced once.", seconds)
	m.commit = m.histogram("etcd_disk_backend_commit_duration_seconds", "Duration of the commits.", seconds)
	m.batchOperations = m.histogram("sqlstore_batch_operations", "Operations of a committed batch.", prometheus.ExponentialBuckets(1, 2, 11))
	m.batchRows = m.histogram("sqlstore_batch_rows", "Rows of a committed batch.", prometheus.ExponentialBuckets(1, 2, 13))
	m.info("etcd_server_version", "The etcd version served.", "server_version", cfg.Version)
	m.info("etcd_server_go_version", "The Go version that the server was built with.", "server_go_version", runtime.Version())
	m.info("etcd_cluster_version", "The cluster's version.", "cluster_version", minor(cfg.Version))
	m.info("sqlstore_build_info", "The version of sqlstore.", "version", cfg.SQLStore)
	return m
}

// minor cuts a version to major.minor.
func minor(version string) string {
	if i := strings.LastIndexByte(version, '.'); i >= 0 {
		return version[:i]
	}
	return version
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.Registry.MustRegister(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.Registry.MustRegister(h)
	return h
}

// info makes a metric whose label is what it has to tell; its value is always 1.
func (m *Metrics) info(name, help, label, value string) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}}, func() float64 { return 1 }))
}

// Batch implements [store.Observer].
func (m *Metrics) Batch(b store.Batch) {
	m.puts.Add(float64(b.Puts))
	m.deletes.Add(float64(b.Deletes))
	m.putBytes.Add(float64(b.ValueBytes))
	m.granted.Add(float64(b.Granted))
	m.revoked.Add(float64(b.Revoked))
	m.operations.Add(float64(b.Operations))
	if b.Commit > slowCommit {
		m.slow.Inc()
	}
	seconds := b.Commit.Seconds()
	m.fsync.Observe(seconds)
	m.commit.Observe(seconds)
	m.batchOperations.Observe(float64(b.Operations))
	m.batchRows.Observe(float64(b.Puts + b.Deletes))
}

// Events implements [store.Observer].
func (m *Metrics) Events(n int) { m.events.Add(float64(n)) }
