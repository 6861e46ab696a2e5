// Package telemetry provides the Prometheus metrics and the health endpoints. Metrics have etcd's names wherever etcd
// has one, so that its dashboards and alerts work; sqlstore adds its own.
//
// Counters on hot paths are resolved once, and other values are read at scrape time. The durations of frequent calls
// are sampled, see the type request: reading the clock twice per call would cost more than all the rest.
//
// Some of etcd's metrics measure parts that do not exist here, but dashboards and alerts query them. Their value is the
// true one, zero (read indexes, learners), or that of the nearest equivalent: a commit stands for the write and the
// sync of the log, and for applying a batch (op "Batch"). What a single etcd has as a zero, such as raft's snapshots,
// is a zero here. Metrics that an etcd has only with peers are omitted; testdata/not-served.txt lists them.
package telemetry

import (
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sqlstore/sqlstore/internal/exemplar"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// Metrics is the registry of one server. It implements the store's [store.Observer].
type Metrics struct {
	Registry *prometheus.Registry

	calls     *calls
	health    healthMetrics
	etcdReady bool
	tracer    *tracing.Tracer
	console   []string

	slowCommit time.Duration
	reportSlow func(store.Batch)

	puts, deletes              prometheus.Counter
	putBytes                   prometheus.Gauge // a gauge as in etcd, though it only grows
	granted, revoked           prometheus.Counter
	events, operations, slow   prometheus.Counter
	commits                    []prometheus.Observer // of their durations, under etcd's names
	written                    prometheus.Gauge      // a gauge as in etcd, though it only grows
	watchSends                 watchSends
	ttl                        prometheus.Histogram
	purges                     purges
	batchOperations, batchRows prometheus.Histogram
}

// Config describes the server to New.
type Config struct {
	// Version is the etcd version, SQLStore that of the program.
	Version, SQLStore string
	// Extensive adds histograms of call durations, like etcd's --metrics=extensive.
	Extensive bool
	// EtcdReady makes /readyz answer by etcd's checks alone, without the conditions.
	EtcdReady bool
	// InitialCorruptCheck and CompactHashCheck report etcd's feature gates of these names as enabled.
	InitialCorruptCheck, CompactHashCheck bool
	// SlowCommit is the duration above which a commit counts as slow; 0 or less means never. Slow, which may be nil, is
	// called for each slow commit.
	SlowCommit time.Duration
	Slow       func(store.Batch)
	// Tracer makes the spans of the requests, nil for none. The latencies then have traces as exemplars, and scrapers
	// that ask for OpenMetrics, which can have them, get it.
	Tracer *tracing.Tracer
	// Console are the URLs of the console, for the page at /.
	Console []string
}

// New makes a registry. Call [Metrics.Watch] and [Metrics.Attach] before the first scrape.
func New(cfg Config) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(), etcdReady: cfg.EtcdReady, slowCommit: cfg.SlowCommit,
		reportSlow: cfg.Slow, tracer: cfg.Tracer, console: cfg.Console,
	}
	m.Registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.calls = newCalls(m, cfg.Extensive)
	m.health = newHealthMetrics(m)
	m.puts = m.counter("etcd_mvcc_put_total", "Rows put, one per key and transaction.")
	m.deletes = m.counter("etcd_mvcc_delete_total", "Keys deleted.")
	m.putBytes = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "etcd_debugging_mvcc_total_put_size_in_bytes",
		Help: "Total bytes of values put.",
	})
	m.Registry.MustRegister(m.putBytes)
	m.granted = m.counter("etcd_debugging_lease_granted_total", "Leases granted.")
	m.revoked = m.counter("etcd_debugging_lease_revoked_total", "Leases revoked, including those that expired.")
	m.events = m.counter("etcd_debugging_mvcc_events_total", "Events passed to watch streams.")
	m.operations = m.counter("sqlstore_operations_total", "Operations of committed batches, including failed compares.")
	m.slow = m.counter("etcd_server_slow_apply_total", "Commits that took longer than the threshold of slow requests.")
	seconds := prometheus.ExponentialBuckets(0.001, 2, 14) // etcd's buckets, up to 8 s
	fsync := m.histogram("etcd_disk_wal_fsync_duration_seconds",
		"Duration of the commits, each of which is synced once.", seconds)
	commit := m.histogram("etcd_disk_backend_commit_duration_seconds", "Duration of the commits.", seconds)
	walWrite := m.histogram("etcd_disk_wal_write_duration_seconds",
		"Duration of the commits: SQLite writes and syncs its log in one step.", seconds)
	apply := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "etcd_server_apply_duration_seconds", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 20),
		Help: "Duration of the commits: a batch is applied as one.",
	}, []string{"version", "op", "success"})
	m.Registry.MustRegister(apply)
	m.ttl = m.histogram("etcd_debugging_lease_ttl_total", "TTLs of granted leases, in seconds.",
		prometheus.ExponentialBuckets(1, 2, 24))
	m.purges = newPurges(m)
	commitWrite := m.histogram("etcd_debugging_disk_backend_commit_write_duration_seconds",
		"Duration of the commits: a SQL database writes and syncs in one step.", seconds)
	m.commits = []prometheus.Observer{
		fsync, walWrite, commit, commitWrite, apply.WithLabelValues("v3", "Batch", "true"),
	}
	m.written = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "etcd_disk_wal_write_bytes_total",
		Help: "Bytes of values written: databases do not tell how much of their logs they write.",
	})
	m.Registry.MustRegister(m.written)
	m.watchSends = newWatchSends(m)
	m.registerAbsent(&cfg)
	m.Registry.MustRegister(newDescriptors())
	m.batchOperations = m.histogram("sqlstore_batch_operations", "Operations of a committed batch.",
		prometheus.ExponentialBuckets(1, 2, 11))
	m.batchRows = m.histogram("sqlstore_batch_rows", "Rows of a committed batch.",
		prometheus.ExponentialBuckets(1, 2, 13))
	m.info("etcd_server_version", "The etcd version of the API.", "server_version", cfg.Version)
	m.info("etcd_server_go_version", "The Go version that built the server.", "server_go_version",
		runtime.Version())
	m.info("etcd_cluster_version", "The cluster's version.", "cluster_version", minor(cfg.Version))
	m.info("sqlstore_build_info", "The version of sqlstore.", "version", cfg.SQLStore)
	return m
}

// minor shortens a version to major.minor.
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

func (m *Metrics) counterFunc(name, help string, read func() float64) {
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read))
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.Registry.MustRegister(h)
	return h
}

// info makes a metric whose label carries the information; its value is always 1.
func (m *Metrics) info(name, help, label, value string) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{label: value}}, func() float64 {
			return 1
		}))
}

// Batch implements [store.Observer].
func (m *Metrics) Batch(b store.Batch) {
	m.puts.Add(float64(b.Puts))
	m.deletes.Add(float64(b.Deletes))
	m.putBytes.Add(float64(b.ValueBytes))
	m.written.Add(float64(b.ValueBytes))
	m.granted.Add(float64(len(b.Granted)))
	for i := range b.Granted {
		m.ttl.Observe(b.Granted[i].TTL.Seconds())
	}
	m.revoked.Add(float64(b.Revoked))
	m.operations.Add(float64(b.Operations))
	if m.slowCommit > 0 && b.Commit > m.slowCommit {
		m.slow.Inc()
		if m.reportSlow != nil {
			m.reportSlow(b)
		}
	}
	seconds := b.Commit.Seconds()
	for _, h := range m.commits {
		exemplar.Observe(h, seconds, b.Trace)
	}
	m.batchOperations.Observe(float64(b.Operations))
	m.batchRows.Observe(float64(b.Puts + b.Deletes))
}

// Events implements [store.Observer].
func (m *Metrics) Events(n int) { m.events.Add(float64(n)) }
