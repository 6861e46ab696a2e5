// Package telemetry is what an operator sees from outside: Prometheus metrics under etcd's names wherever etcd has one, so
// that its dashboards work, sqlstore's own beside them, and the health endpoints.
//
// Counters on hot paths are resolved once; what can be read at scrape time is.
package telemetry

import (
	"context"
	"net"
	"runtime"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/etcdshim/rpcmetrics"
	"github.com/sqlstore/sqlstore/store"
)

// Metrics is the registry of one server. It is the store's [store.Observer].
type Metrics struct {
	Registry *prometheus.Registry

	unary                  grpc.UnaryServerInterceptor
	stream                 grpc.StreamServerInterceptor
	ranges, txns           prometheus.Counter
	puts, deletes          prometheus.Counter
	committed, events      prometheus.Counter
	putBytes               prometheus.Counter
	received, sent         prometheus.Counter
	fsync, commit          prometheus.Histogram
	batchOperations        prometheus.Histogram
	batchRows              prometheus.Histogram
	healthTrue, healthFail prometheus.Counter
}

// Config describes the server to New.
type Config struct {
	// Version is the etcd version served, SQLStore the program's own.
	Version, SQLStore string
	// Extensive adds histograms of the calls' durations, as etcd's --metrics=extensive.
	Extensive bool
}

// New makes a registry. Attach a store with [Metrics.Watch] before it is scraped.
func New(cfg Config) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	m.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cfg.Extensive {
		rpc := grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram())
		m.Registry.MustRegister(rpc)
		m.unary, m.stream = rpc.UnaryServerInterceptor(), rpc.StreamServerInterceptor()
	} else {
		rpc := rpcmetrics.New()
		m.Registry.MustRegister(rpc)
		m.unary, m.stream = rpc.Unary, rpc.Stream
	}
	m.ranges = m.counter("etcd_mvcc_range_total", "Total number of ranges seen by this member.")
	m.txns = m.counter("etcd_mvcc_txn_total", "Total number of txns seen by this member.")
	m.puts = m.counter("etcd_mvcc_put_total", "Total number of puts seen by this member.")
	m.deletes = m.counter("etcd_mvcc_delete_total", "Total number of deletes seen by this member.")
	m.putBytes = m.counter("etcd_debugging_mvcc_total_put_size_in_bytes", "Total size of the values put by this member.")
	m.events = m.counter("etcd_debugging_mvcc_events_total", "Total number of events sent by this member.")
	m.committed = m.counter("etcd_server_proposals_committed_total", "Total number of committed operations.")
	m.received = m.counter("etcd_network_client_grpc_received_bytes_total", "Total number of bytes received from grpc clients.")
	m.sent = m.counter("etcd_network_client_grpc_sent_bytes_total", "Total number of bytes sent to grpc clients.")
	m.healthTrue = m.counter("etcd_server_health_success", "Total number of successful health checks.")
	m.healthFail = m.counter("etcd_server_health_failures", "Total number of failed health checks.")
	seconds := prometheus.ExponentialBuckets(0.001, 2, 14)
	m.fsync = m.histogram("etcd_disk_wal_fsync_duration_seconds", "Latency of the commits, each of which is synced once.", seconds)
	m.commit = m.histogram("etcd_disk_backend_commit_duration_seconds", "Latency of the commits to the database.", seconds)
	m.batchOperations = m.histogram("sqlstore_batch_operations", "Operations in one committed batch.", prometheus.ExponentialBuckets(1, 2, 11))
	m.batchRows = m.histogram("sqlstore_batch_rows", "Rows in one committed batch.", prometheus.ExponentialBuckets(1, 2, 13))
	m.info("etcd_server_version", "Which etcd version is served. 1 for 'server_version' label.", "server_version", cfg.Version)
	m.info("etcd_server_go_version", "Which Go version the server runs with. 1 for 'server_go_version' label.", "server_go_version", runtime.Version())
	m.info("etcd_cluster_version", "Which version the cluster has. 1 for 'cluster_version' label.", "cluster_version", minor(cfg.Version))
	m.info("sqlstore_build_info", "Which version of sqlstore runs. 1 for 'version' label.", "version", cfg.SQLStore)
	return m
}

// minor cuts a version to major.minor, as etcd tells its cluster's.
func minor(version string) string {
	for i, dots := 0, 0; i < len(version); i++ {
		if version[i] == '.' {
			if dots++; dots == 2 {
				return version[:i]
			}
		}
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

func (m *Metrics) info(name, help, label, value string) {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	g.WithLabelValues(value).Set(1)
	m.Registry.MustRegister(g)
}

// Batch implements [store.Observer].
func (m *Metrics) Batch(b store.Batch) {
	m.puts.Add(float64(b.Puts))
	m.deletes.Add(float64(b.Deletes))
	m.putBytes.Add(float64(b.ValueBytes))
	m.committed.Add(float64(b.Operations))
	seconds := b.Commit.Seconds()
	m.fsync.Observe(seconds)
	m.commit.Observe(seconds)
	m.batchOperations.Observe(float64(b.Operations))
	m.batchRows.Observe(float64(b.Puts + b.Deletes))
}

// Events implements [store.Observer].
func (m *Metrics) Events(n int) { m.events.Add(float64(n)) }

// Unary counts unary calls; it goes around them as an interceptor.
func (m *Metrics) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		switch info.FullMethod {
		case "/etcdserverpb.KV/Range":
			m.ranges.Inc()
		case "/etcdserverpb.KV/Txn":
			m.txns.Inc()
		}
		return m.unary(ctx, req, info, handler)
	}
}

// Stream counts streaming calls; it goes around them as an interceptor.
func (m *Metrics) Stream() grpc.StreamServerInterceptor { return m.stream }

// Listener counts the bytes of the connections that l accepts.
func (m *Metrics) Listener(l net.Listener) net.Listener { return &countingListener{l, m} }

type countingListener struct {
	net.Listener
	m *Metrics
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{c, l.m}, nil
}

type countingConn struct {
	net.Conn
	m *Metrics
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.m.received.Add(float64(n))
	return n, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.m.sent.Add(float64(n))
	return n, err
}
