package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	rangeMethod    = "/etcdserverpb.KV/Range"
	txnMethod      = "/etcdserverpb.KV/Txn"
	snapshotMethod = "/etcdserverpb.Maintenance/Snapshot"
)

// requestTypes are etcd's names for the requests that it measures. Its ReadonlyTxn is part of our Txn.
var requestTypes = map[string]string{
	rangeMethod:                            "Range",
	"/etcdserverpb.KV/Put":                 "Put",
	"/etcdserverpb.KV/DeleteRange":         "DeleteRange",
	txnMethod:                              "Txn",
	"/etcdserverpb.KV/Compact":             "Compaction",
	"/etcdserverpb.Lease/LeaseGrant":       "LeaseGrant",
	"/etcdserverpb.Lease/LeaseRevoke":      "LeaseRevoke",
	"/etcdserverpb.Maintenance/Alarm":      "Alarm",
	"/etcdserverpb.Maintenance/Hash":       "",
	"/etcdserverpb.Maintenance/HashKV":     "",
	"/etcdserverpb.Maintenance/Defragment": "",
}

// frequent are the methods of which only some calls are sampled.
var frequent = []string{rangeMethod, "/etcdserverpb.KV/Put", "/etcdserverpb.KV/DeleteRange", txnMethod}

var (
	requestSeconds = prometheus.NewDesc("etcd_server_request_duration_seconds",
		"Duration of requests, by type; of the frequent types every 16th is timed and represents those that follow it.",
		[]string{"type", "success"}, nil)
	rangeSeconds = prometheus.NewDesc("etcd_server_range_duration_seconds",
		"Duration of ranges; every 16th is timed and represents those that follow it.", []string{"success"}, nil)
	clientRequests = prometheus.NewDesc("etcd_server_client_requests_total",
		"Calls by the version of the client's library; of the frequent types every 16th is examined and represents "+
			"those that follow it.",
		[]string{"type", "client_api_version"}, nil)
)

// requests are the calls of one server. It implements [prometheus.Collector].
type requests struct {
	unary    map[string]*request // by method; never changed
	rest     *request            // of the other unary methods
	streams  *request
	snapshot prometheus.Observer // durations of streams of that method
}

// newRequests samples frequent calls or, if all is set, every call.
func newRequests(m *Metrics, all bool) *requests {
	seen := &clients{versions: map[string]struct{}{}}
	newRequest := func(every uint64) *request {
		return &request{every: every, clients: seen, versions: map[string]uint64{}}
	}
	rs := &requests{unary: map[string]*request{}, rest: newRequest(1), streams: newRequest(1)}
	coarse, fine := prometheus.ExponentialBuckets(0.001, 2, 14), prometheus.ExponentialBuckets(0.0001, 2, 20)
	for method, name := range requestTypes {
		r := newRequest(1)
		if !all && slices.Contains(frequent, method) {
			r.every = sampleEvery
		}
		if name != "" {
			r.spreads = append(r.spreads, newSpread(requestSeconds, coarse, name))
		}
		if method == rangeMethod {
			r.spreads = append(r.spreads, newSpread(rangeSeconds, fine))
		}
		rs.unary[method] = r
	}
	slow := func(name, help string, first float64, count int) prometheus.Observer {
		return m.histogram(name, help, prometheus.ExponentialBuckets(first, 2, count))
	}
	rs.unary["/etcdserverpb.Maintenance/Hash"].observer = slow("etcd_mvcc_hash_duration_seconds",
		"Duration of Maintenance/Hash.", 0.01, 15)
	rs.unary["/etcdserverpb.Maintenance/HashKV"].observer = slow("etcd_mvcc_hash_rev_duration_seconds",
		"Duration of Maintenance/HashKV.", 0.01, 15)
	rs.snapshot = slow("etcd_disk_backend_snapshot_duration_seconds", "Duration of Maintenance/Snapshot.", 0.01, 17)
	defragment := rs.unary["/etcdserverpb.Maintenance/Defragment"]
	defragment.observer = slow("etcd_disk_backend_defrag_duration_seconds",
		"Duration of Maintenance/Defragment, which does not block clients.", 0.1, 13)
	defragment.active = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "etcd_disk_defrag_inflight",
		Help: "Calls of Maintenance/Defragment in progress.",
	})
	m.Registry.MustRegister(defragment.active, rs)
	return rs
}

func (rs *requests) of(method string) *request {
	if r := rs.unary[method]; r != nil {
		return r
	}
	return rs.rest
}

// Describe implements [prometheus.Collector].
func (rs *requests) Describe(out chan<- *prometheus.Desc) {
	out <- requestSeconds
	out <- rangeSeconds
	out <- clientRequests
}

// Collect implements [prometheus.Collector].
func (rs *requests) Collect(out chan<- prometheus.Metric) {
	unary, streams := map[string]uint64{}, map[string]uint64{}
	collect := func(r *request, versions map[string]uint64) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.every > 1 {
			r.settle(r.calls.Load())
		}
		for version, n := range r.versions {
			versions[version] += n
		}
		for _, s := range r.spreads {
			s.collect(out)
		}
	}
	for _, r := range rs.unary {
		collect(r, unary)
	}
	collect(rs.rest, unary)
	collect(rs.streams, streams)
	for kind, versions := range map[string]map[string]uint64{"unary": unary, "stream": streams} {
		for version, n := range versions {
			out <- prometheus.MustNewConstMetric(clientRequests, prometheus.CounterValue, float64(n), kind, version)
		}
	}
}
