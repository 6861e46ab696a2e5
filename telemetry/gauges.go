package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/store"
)

// scrapeTimeout bounds what a scrape waits for the database.
const scrapeTimeout = 2 * time.Second

// Watch adds what is read from s at scrape time.
func (m *Metrics) Watch(s *store.Store) {
	g := &gauges{store: s}
	for _, d := range []struct {
		name, help string
		kind       prometheus.ValueType
		read       func(*store.Status, store.WatchStats) float64
	}{
		{"etcd_server_has_leader", "Whether or not a leader exists. 1 is existence, 0 is not.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return bit(st.Leader != 0) }},
		{"etcd_server_is_leader", "Whether or not this member is a leader. 1 if is, 0 otherwise.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return bit(st.Leader == st.MemberID) }},
		{"etcd_server_is_learner", "Whether or not this member is a learner. 1 if is, 0 otherwise.", prometheus.GaugeValue, func(*store.Status, store.WatchStats) float64 { return 0 }},
		{"etcd_server_leader_changes_seen_total", "The number of leader changes seen.", prometheus.CounterValue, func(*store.Status, store.WatchStats) float64 { return 0 }},
		{"etcd_server_proposals_applied_total", "The revision up to which operations are applied.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return float64(st.Revision) }},
		{"etcd_server_proposals_pending", "The current number of pending operations.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return float64(st.Waiting) }},
		{"etcd_server_quota_backend_bytes", "Current quota size in bytes.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return float64(st.Quota) }},
		{"etcd_mvcc_db_total_size_in_bytes", "Total size of the underlying database physically allocated in bytes.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return float64(st.DBSize) }},
		{"etcd_mvcc_db_total_size_in_use_in_bytes", "Total size of the underlying database logically in use in bytes.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return float64(st.DBSizeInUse) }},
		{"etcd_debugging_mvcc_keys_total", "Total number of keys.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return float64(st.Keys) }},
		{"etcd_debugging_mvcc_current_revision", "The current revision of store.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return float64(st.Revision) }},
		{"etcd_debugging_mvcc_compact_revision", "The revision of the last compaction in store.", prometheus.GaugeValue, func(st *store.Status, _ store.WatchStats) float64 { return float64(st.Compacted) }},
		{"etcd_debugging_mvcc_watch_stream_total", "Total number of watch streams.", prometheus.GaugeValue, func(_ *store.Status, w store.WatchStats) float64 { return float64(w.Streams) }},
		{"etcd_debugging_mvcc_watcher_total", "Total number of watchers.", prometheus.GaugeValue, func(_ *store.Status, w store.WatchStats) float64 { return float64(w.Watches) }},
		{"etcd_debugging_mvcc_slow_watcher_total", "Total number of unsynced slow watchers.", prometheus.GaugeValue, func(_ *store.Status, w store.WatchStats) float64 { return float64(w.Slow) }},
		{"sqlstore_watch_lag_revisions", "How many revisions the watch furthest behind has still to get.", prometheus.GaugeValue, func(_ *store.Status, w store.WatchStats) float64 { return float64(w.Lag) }},
		{"sqlstore_watch_window_bytes", "Bytes of recent events kept in memory for watches.", prometheus.GaugeValue, func(_ *store.Status, w store.WatchStats) float64 { return float64(w.WindowBytes) }},
	} {
		g.values = append(g.values, value{prometheus.NewDesc(d.name, d.help, nil, nil), d.kind, d.read})
	}
	m.Registry.MustRegister(g)
	m.info("etcd_server_id", "Server or member ID in hexadecimal format. 1 for 'server_id' label with current ID.", "server_id", fmt.Sprintf("%x", s.Settings().MemberID))
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// gauges reads one status for all values of a scrape.
type gauges struct {
	store  *store.Store
	values []value
}

type value struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*store.Status, store.WatchStats) float64
}

func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, v := range g.values {
		out <- v.desc
	}
}

func (g *gauges) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	st, err := g.store.Status(ctx)
	if err != nil {
		for _, v := range g.values {
			out <- prometheus.NewInvalidMetric(v.desc, err)
		}
		return
	}
	watches := g.store.WatchStats()
	for _, v := range g.values {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.read(st, watches))
	}
}
