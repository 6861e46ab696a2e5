package telemetry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/store"
)

// scrapeTimeout bounds what a scrape waits for the database.
const scrapeTimeout = 2 * time.Second

// state is what a scrape reads of a store.
type state struct {
	*store.Status
	watches store.WatchStats
	leases  store.LeaseStats
}

// gauge is one number of the state.
type gauge struct {
	name, help string
	read       func(state) float64
}

var gauges = []gauge{
	{"etcd_server_has_leader", "1 when there is a leader.", func(s state) float64 { return bit(s.Leader != 0) }},
	{"etcd_server_is_leader", "1 when this member is the leader.", func(s state) float64 { return bit(s.Leader == s.MemberID) }},
	{"etcd_server_is_learner", "1 when this member is a learner: never.", func(state) float64 { return 0 }},
	{"etcd_server_proposals_committed_total", "The revision of the last commit.", func(s state) float64 { return float64(s.Revision) }},
	{"etcd_server_proposals_applied_total", "The revision up to which everything is applied.", func(s state) float64 { return float64(s.Revision) }},
	{"etcd_server_proposals_pending", "Operations waiting for a batch.", func(s state) float64 { return float64(s.Waiting) }},
	{"etcd_server_quota_backend_bytes", "Size of the database, in bytes, that raises the NOSPACE alarm.", func(s state) float64 { return float64(s.Quota) }},
	{"etcd_mvcc_db_total_size_in_bytes", "Bytes that the database takes.", func(s state) float64 { return float64(s.DBSize) }},
	{"etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes that the database takes, less free pages.", func(s state) float64 { return float64(s.DBSizeInUse) }},
	{"etcd_debugging_mvcc_keys_total", "Keys alive.", func(s state) float64 { return float64(s.Keys) }},
	{"etcd_debugging_mvcc_current_revision", "The current revision.", func(s state) float64 { return float64(s.Revision) }},
	{"etcd_debugging_mvcc_compact_revision", "The oldest revision that can be read.", func(s state) float64 { return float64(s.Compacted) }},
	{"etcd_debugging_mvcc_watch_stream_total", "Watch streams.", func(s state) float64 { return float64(s.watches.Streams) }},
	{"etcd_debugging_mvcc_watcher_total", "Watches.", func(s state) float64 { return float64(s.watches.Watches) }},
	{"etcd_debugging_mvcc_slow_watcher_total", "Watches that are catching up.", func(s state) float64 { return float64(s.watches.Slow) }},
	{"etcd_debugging_mvcc_pending_events_total", "Events waiting to be sent to watches.", func(s state) float64 { return float64(s.watches.Pending) }},
	{"etcd_mvcc_db_open_read_transactions", "Read transactions that are open.", func(s state) float64 { return float64(s.OpenReads) }},
	{"etcd_debugging_lease_renewed_total", "Renewals of leases.", func(s state) float64 { return float64(s.leases.Renewed) }},
	{"etcd_debugging_server_lease_expired_total", "Leases that ended because nobody renewed them.", func(s state) float64 { return float64(s.leases.Expired) }},
	{"sqlstore_watch_lag_revisions", "Revisions that the watch furthest behind has still to get.", func(s state) float64 { return float64(s.watches.Lag) }},
	{"sqlstore_watch_window_bytes", "Bytes of recent events kept in memory for watches.", func(s state) float64 { return float64(s.watches.WindowBytes) }},
}

// counters are those of the gauges that only grow.
var counters = []string{"etcd_debugging_lease_renewed_total", "etcd_debugging_server_lease_expired_total"}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Watch adds what is read from s at scrape time.
func (m *Metrics) Watch(s *store.Store) {
	c := &stateCollector{store: s}
	for _, g := range gauges {
		c.descs = append(c.descs, prometheus.NewDesc(g.name, g.help, nil, nil))
	}
	m.Registry.MustRegister(c)
	m.counter("etcd_server_leader_changes_seen_total", "Changes of the leader: none, while there is one member.")
	id := fmt.Sprintf("%x", s.Settings().MemberID)
	m.info("etcd_server_id", "This member's id.", "server_id", id)
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "etcd_network_known_peers", Help: "Members known: this one.", ConstLabels: prometheus.Labels{"Local": id, "Remote": id},
	}, func() float64 { return 1 }))
}

// stateCollector reads the state once for all gauges of a scrape.
type stateCollector struct {
	store *store.Store
	descs []*prometheus.Desc // of gauges
}

func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	st, err := c.store.Status(ctx)
	if err != nil {
		for _, d := range c.descs {
			out <- prometheus.NewInvalidMetric(d, err)
		}
		return
	}
	s := state{st, c.store.WatchStats(), c.store.LeaseStats()}
	for i, g := range gauges {
		kind := prometheus.GaugeValue
		if slices.Contains(counters, g.name) {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(c.descs[i], kind, g.read(s))
	}
}
