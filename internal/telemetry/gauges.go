package telemetry

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/internal/store"
)

// scrapeTimeout limits how long a scrape waits for the database.
const scrapeTimeout = 2 * time.Second

// state is what a scrape reads of a store.
type state struct {
	*store.Status
	reachable, leads bool
	changes          uint64 // of the leader
	watches          store.WatchStats
	leases           store.LeaseStats
	cache            store.CacheStats
	users            uint64 // auth revision
}

// gauge is one number of the state. One that comes from the database is omitted while that does not answer.
type gauge struct {
	name, help string
	read       func(state) float64
	asked      bool
}

var gauges = []gauge{
	{"etcd_server_has_leader", "1 when there is a leader.", func(s state) float64 {
		return bit(s.Leader != 0 && s.reachable)
	}, false},
	{
		"etcd_server_is_leader", "1 when this member is the leader.", func(s state) float64 { return bit(s.leads) },
		false,
	},
	{
		"etcd_server_leader_changes_seen_total", "Leader changes seen by scrapes.",
		func(s state) float64 { return float64(s.changes) }, false,
	},
	{"etcd_server_is_learner", "1 when this member is a learner: never.", func(state) float64 { return 0 }, false},
	{
		"etcd_server_proposals_committed_total", "The revision of the last commit.",
		func(s state) float64 { return float64(s.Revision) }, false,
	},
	{
		"etcd_server_proposals_applied_total", "The revision up to which everything is applied.",
		func(s state) float64 { return float64(s.Revision) }, false,
	},
	{
		"etcd_server_proposals_pending", "Operations waiting for a batch.",
		func(s state) float64 { return float64(s.Waiting) }, true,
	},
	{
		"etcd_server_quota_backend_bytes", "Database size, in bytes, that raises the NOSPACE alarm.",
		func(s state) float64 { return float64(s.Quota) }, true,
	},
	{
		"etcd_mvcc_db_total_size_in_bytes", "Bytes that the database uses.",
		func(s state) float64 { return float64(s.DBSize) }, true,
	},
	{
		"etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes that the database uses, without free pages.",
		func(s state) float64 { return float64(s.DBSizeInUse) }, true,
	},
	{
		"sqlstore_wal_bytes", "Bytes of SQLite's write-ahead log, which the size does not include; 0 on Postgres.",
		func(s state) float64 { return float64(s.DBWAL) }, true,
	},
	{"etcd_debugging_mvcc_keys_total", "Live keys.", func(s state) float64 { return float64(s.Keys) }, true},
	{
		"etcd_debugging_mvcc_current_revision", "The current revision.",
		func(s state) float64 { return float64(s.Revision) }, false,
	},
	{
		"etcd_debugging_mvcc_compact_revision", "The oldest readable revision.",
		func(s state) float64 { return float64(s.Compacted) }, false,
	},
	{
		"etcd_debugging_mvcc_watch_stream_total", "Watch streams.",
		func(s state) float64 { return float64(s.watches.Streams) }, false,
	},
	{
		"etcd_debugging_mvcc_watcher_total", "Watches.", func(s state) float64 { return float64(s.watches.Watches) },
		false,
	},
	{
		"etcd_debugging_mvcc_slow_watcher_total", "Watches that are catching up.",
		func(s state) float64 { return float64(s.watches.Slow) }, false,
	},
	{
		"etcd_debugging_mvcc_pending_events_total", "Events waiting to be sent to watches.",
		func(s state) float64 { return float64(s.watches.Pending) }, false,
	},
	{
		"etcd_mvcc_db_open_read_transactions", "Open read transactions.",
		func(s state) float64 { return float64(s.OpenReads) }, true,
	},
	{
		"etcd_debugging_lease_renewed_total", "Lease renewals.",
		func(s state) float64 { return float64(s.leases.Renewed) }, false,
	},
	{
		"etcd_debugging_server_lease_expired_total", "Leases that expired.",
		func(s state) float64 { return float64(s.leases.Expired) }, false,
	},
	{
		"etcd_debugging_auth_revision", "The revision of users and roles.",
		func(s state) float64 { return float64(s.users) }, false,
	},
	{
		"sqlstore_incarnation", "Raised when the database has lost acknowledged revisions.",
		func(s state) float64 { return float64(s.Epoch) }, false,
	},
	{
		"sqlstore_value_cache_hits_total", "Values that reads found in memory.",
		func(s state) float64 { return float64(s.cache.Hits) }, false,
	},
	{
		"sqlstore_value_cache_misses_total", "Values that reads fetched from the database.",
		func(s state) float64 { return float64(s.cache.Misses) }, false,
	},
	{
		"sqlstore_watch_lag_revisions", "Revisions that the slowest watch is behind.",
		func(s state) float64 { return float64(s.watches.Lag) }, false,
	},
	{
		"sqlstore_watch_pending_bytes",
		"Bytes of the events waiting to be sent to watches; events that several wait for " +
			"count once.", func(s state) float64 { return float64(s.watches.PendingBytes) }, false,
	},
	{
		"sqlstore_watch_window_bytes", "Bytes of recent events kept in memory for watches.",
		func(s state) float64 { return float64(s.watches.WindowBytes) }, false,
	},
}

// counters are the gauges that only grow.
var counters = []string{
	"etcd_debugging_lease_renewed_total", "etcd_debugging_server_lease_expired_total",
	"etcd_server_leader_changes_seen_total", "sqlstore_value_cache_hits_total", "sqlstore_value_cache_misses_total",
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Watch adds what is read from s at scrape time.
func (m *Metrics) Watch(s *store.Store) {
	c := &stateCollector{store: s, leader: s.Leader()}
	for _, g := range gauges {
		c.descs = append(c.descs, prometheus.NewDesc(g.name, g.help, nil, nil))
	}
	c.peers = prometheus.NewDesc("etcd_network_known_peers", "Known members, including this one.",
		[]string{"Local", "Remote"}, nil)
	m.Registry.MustRegister(c)
	m.watchReplica(s.ReplicaStats)
	m.info("etcd_server_id", "This member's id.", "server_id", hex(s.Settings().MemberID))
}

func hex(id uint64) string { return strconv.FormatUint(id, 16) }

// stateCollector reads the state once for all gauges of a scrape.
type stateCollector struct {
	store *store.Store
	descs []*prometheus.Desc // of gauges
	peers *prometheus.Desc

	mu      sync.Mutex
	leader  uint64 // the last one seen, not 0 after the first
	changes uint64
}

func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
	out <- c.peers
}

func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	s, answered := c.read()
	for i, g := range gauges {
		if g.asked && !answered {
			continue
		}
		kind := prometheus.GaugeValue
		if slices.Contains(counters, g.name) {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(c.descs[i], kind, g.read(s))
	}
	self := c.store.Settings().MemberID
	known := []uint64{self}
	for _, m := range c.store.Members() {
		if m.ID != self {
			known = append(known, m.ID)
		}
	}
	for _, id := range known {
		out <- prometheus.MustNewConstMetric(c.peers, prometheus.GaugeValue, 1, hex(self), hex(id))
	}
}

// read returns what is in memory in any case, and reports whether the database answered for the rest.
func (c *stateCollector) read() (s state, answered bool) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	st := c.store
	s = state{
		reachable: reachable(st) == nil, leads: st.Leads(), watches: st.WatchStats(), leases: st.LeaseStats(),
		cache: st.CacheStats(), users: st.Auth().Revision(),
	}
	if s.reachable {
		if status, err := st.Status(ctx); err == nil {
			s.Status = status
		}
	}
	if answered = s.Status != nil; !answered {
		s.Status = &store.Status{
			Revision: st.Revision(), Compacted: st.Compacted(), Epoch: st.Epoch(),
			Leader: st.Leader(),
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Leader != 0 && s.Leader != c.leader {
		if c.leader != 0 {
			c.changes++
		}
		c.leader = s.Leader
	}
	s.changes = c.changes
	return s, answered
}
