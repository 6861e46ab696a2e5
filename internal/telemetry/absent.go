package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// features are etcd 3.7's feature gates, with their stage and whether they are on by default. Dashboards query the
// metric.
var features = []struct {
	name, stage string
	on          bool
}{
	{"AllAlpha", "ALPHA", false},
	{"AllBeta", "BETA", false},
	{"CompactHashCheck", "ALPHA", false},
	{"FastLeaseKeepAlive", "BETA", true},
	{"InitialCorruptCheck", "ALPHA", false},
	{"LeaseCheckpoint", "ALPHA", false},
	{"LeaseCheckpointPersist", "ALPHA", false},
	{"PriorityRequest", "ALPHA", false},
	{"SetMemberLocalAddr", "ALPHA", false},
	{"StopGRPCServiceOnDefrag", "ALPHA", false},
	{"TxnModeWriteWithSharedBuffer", "BETA", true},
}

// registerAbsent registers etcd's metrics of parts that do not exist here. They have the values that an etcd has which
// does not use those parts: zero, or no observation.
func (m *Metrics) registerAbsent(cfg *Config) {
	for name, help := range map[string]string{
		"etcd_debugging_store_expires_total":        "Keys of etcd's second API that expired: there is no such API.",
		"etcd_debugging_store_watch_requests_total": "Watches of etcd's second API: there is no such API.",
		"etcd_grpc_proxy_events_coalescing_total":   "Events that etcd's proxy merged: this is no proxy.",
		"etcd_server_heartbeat_send_failures_total": "Heartbeats of raft that failed: there is no raft.",
		"etcd_server_slow_read_indexes_total":       "Slow reads of raft's index: none, as there is no raft.",
		"etcd_server_read_indexes_failed_total":     "Failed reads of raft's index: none, as there is no raft.",
		"etcd_server_learner_promote_successes":     "Learners promoted: none, as there are no learners.",
	} {
		m.counter(name, help)
	}
	for name, help := range map[string]string{
		"etcd_debugging_store_watchers":                "Watches of etcd's second API: there is no such API.",
		"etcd_grpc_proxy_cache_hits_total":             "Hits of the cache of etcd's proxy: this is no proxy.",
		"etcd_grpc_proxy_cache_keys_total":             "Keys in the cache of etcd's proxy: this is no proxy.",
		"etcd_grpc_proxy_cache_misses_total":           "Misses of the cache of etcd's proxy: this is no proxy.",
		"etcd_grpc_proxy_watchers_coalescing_total":    "Watches that etcd's proxy merged: this is no proxy.",
		"etcd_server_snapshot_apply_in_progress_total": "Snapshots of raft being applied: there is no raft.",
	} {
		m.Registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	milliseconds := prometheus.ExponentialBuckets(0.001, 2, 14)
	for name, h := range map[string]struct {
		help    string
		buckets []float64
	}{
		"etcd_debugging_disk_backend_commit_rebalance_duration_seconds": {
			"Rebalancing in commits of etcd's storage: the database does it with the write.", milliseconds,
		},
		"etcd_debugging_disk_backend_commit_spill_duration_seconds": {
			"Spilling in commits of etcd's storage: the database does it with the write.", milliseconds,
		},
		"etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds": {
			"Pauses while the index is compacted: there are none.", prometheus.ExponentialBuckets(0.5, 2, 14),
		},
		"etcd_debugging_snap_save_marshalling_duration_seconds": {
			"Marshalling snapshots of raft: there is no raft.", milliseconds,
		},
		"etcd_debugging_snap_save_total_duration_seconds": {
			"Saving snapshots of raft: there is no raft.", milliseconds,
		},
		"etcd_snap_fsync_duration_seconds": {"Syncing snapshots of raft: there is no raft.", milliseconds},
		"etcd_snap_db_fsync_duration_seconds": {
			"Syncing snapshots from a leader: there is no raft.", milliseconds,
		},
		"etcd_snap_db_save_total_duration_seconds": {
			"Saving snapshots from a leader: there is no raft.", prometheus.ExponentialBuckets(0.1, 2, 10),
		},
	} {
		m.histogram(name, h.help, h.buckets)
	}
	enabled := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcd_server_feature_enabled", Help: "etcd's feature gates.",
	}, []string{"name", "stage"})
	set := map[string]bool{
		"InitialCorruptCheck": cfg.InitialCorruptCheck, "CompactHashCheck": cfg.CompactHashCheck,
	}
	for _, f := range features {
		if on, ok := set[f.name]; ok {
			f.on = on
		}
		enabled.WithLabelValues(f.name, f.stage).Set(bit(f.on))
	}
	m.Registry.MustRegister(enabled)
}
