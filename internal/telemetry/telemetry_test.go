package telemetry_test

import (
	"bufio"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/etcdshim"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/telemetry"
)

// newServer returns the metrics of a server over a temporary store, and that store.
func newServer(t *testing.T, extensive bool) (*telemetry.Metrics, *store.Store) {
	t.Helper()
	m := telemetry.New(telemetry.Config{Version: "3.7.3", SQLStore: "test", Extensive: extensive})
	b, err := sqlite.Open(t.Context(), sqlite.Config{Temporary: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	s, err := store.Open(t.Context(), b, store.Config{Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	shim, err := etcdshim.NewServer(t.Context(), s, etcdshim.Options{ClientURLs: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shim.Shutdown(t.Context())
		shim.Close()
	})
	m.Watch(s)
	m.Attach(shim.GRPC, shim.Traffic)
	return m, s
}

// notServed reads the list of etcd's metrics that sqlstore does not have: names, or prefixes of names that end in _,
// each with a reason.
func notServed(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/not-served.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, reason, _ := strings.Cut(line, " ")
		if strings.TrimSpace(reason) == "" {
			t.Errorf("%q gives no reason", line)
		}
		names = append(names, name)
	}
	return names
}

func TestNamesAreEtcds(t *testing.T) {
	etcd, excuses := etcdMetrics(t), notServed(t)
	for _, extensive := range []bool{false, true} {
		m, s := newServer(t, extensive)
		// Some metrics exist only after a first request.
		if code, body := request(t, m.Handler(s, "3.7.3", newAlarmed(s)), http.MethodGet,
			"/readyz"); code != http.StatusOK {
			t.Fatal(code, body)
		}
		if _, err := m.Unary()(t.Context(), nil, rangeInfo, succeeds); err != nil {
			t.Fatal(err)
		}
		ours := gather(t, m)
		for name, family := range ours {
			kind := strings.ToLower(family.GetType().String())
			switch {
			case strings.HasPrefix(name, "sqlstore_"), strings.HasPrefix(name, "go_"):
			case etcd[name] == "":
				t.Errorf("%s is not one of etcd's metrics", name)
			case etcd[name] != kind:
				t.Errorf("%s is a %s, in etcd a %s", name, kind, etcd[name])
			}
		}
		if _, ok := ours["grpc_server_handling_seconds"]; ok != extensive {
			t.Errorf("extensive %v: grpc_server_handling_seconds served: %v", extensive, ok)
		}
		if extensive {
			continue
		}
		for name := range etcd {
			_, served := ours[name]
			excused := name == "grpc_server_handling_seconds" || slices.ContainsFunc(excuses, func(p string) bool {
				return name == p || strings.HasSuffix(p, "_") && strings.HasPrefix(name, p)
			})
			if served == excused {
				t.Errorf("%s: served %v, excused %v", name, served, excused)
			}
		}
	}
}

// etcdMetrics reads what a real etcd v3.7.3 serves with --metrics=extensive: name and type of each.
func etcdMetrics(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("testdata/etcd-v3.7.3.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, kind, _ := strings.Cut(lines.Text(), " ")
		out[name] = kind
	}
	if len(out) < 100 {
		t.Fatalf("only %d metrics in the list", len(out))
	}
	return out
}

func gather(t *testing.T, m *telemetry.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// value is a metric's value, or a histogram's count.
func value(t *testing.T, m *telemetry.Metrics, name string) float64 {
	t.Helper()
	f := gather(t, m)[name]
	if f == nil || len(f.Metric) != 1 {
		t.Fatalf("%s: %v", name, f)
	}
	metric := f.Metric[0]
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		return metric.Counter.GetValue()
	case dto.MetricType_HISTOGRAM:
		return float64(metric.Histogram.GetSampleCount())
	}
	return metric.Gauge.GetValue()
}

func TestValuesFollowTheStore(t *testing.T) {
	m, s := newServer(t, false)
	ctx := t.Context()
	lease, err := s.LeaseGrant(ctx, 0, 60)
	if err != nil {
		t.Fatal(err)
	}
	renewed, err := s.LeaseGrant(ctx, 0, 60)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		if _, err := s.Put(ctx, &store.PutRequest{
			Key: []byte(key), Value: []byte("12345"),
			Lease: lease.ID,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Delete(ctx, &store.DeleteRequest{Key: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(ctx, 3, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LeaseRevoke(ctx, lease.ID); err != nil { // deletes b and c
		t.Fatal(err)
	}
	w := s.NewWatchStream()
	defer w.Close()
	w.Watch(store.WatchRequest{Key: []byte("a"), End: []byte{0}})
	if r, err := w.Next(ctx); err != nil || !r.Created {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := s.LeaseRenew(ctx, renewed.ID); err != nil {
		t.Fatal(err)
	}
	for step, done := 0, false; !done; step++ {
		r, err := s.PurgeStep(ctx, 100)
		if err != nil || step > 100 {
			t.Fatal(r, err)
		}
		done = r.Done
	}
	for name, want := range map[string]float64{
		"etcd_debugging_lease_renewed_total":                            1,
		"etcd_debugging_lease_ttl_total":                                2,
		"etcd_debugging_server_lease_expired_total":                     0,
		"etcd_debugging_mvcc_pending_events_total":                      0,
		"etcd_debugging_mvcc_db_compaction_keys_total":                  0,
		"etcd_debugging_mvcc_db_compaction_total_duration_milliseconds": 1,
		"etcd_server_apply_duration_seconds":                            8,
		"etcd_server_slow_read_indexes_total":                           0,
		"etcd_network_known_peers":                                      1,
		"etcd_mvcc_put_total":                                           3,
		"etcd_mvcc_delete_total":                                        3,
		"etcd_debugging_mvcc_total_put_size_in_bytes":                   15,
		"etcd_debugging_lease_granted_total":                            2,
		"etcd_debugging_lease_revoked_total":                            1,
		"etcd_debugging_mvcc_current_revision":                          6,
		"etcd_debugging_mvcc_compact_revision":                          3,
		"etcd_debugging_mvcc_keys_total":                                0,
		"etcd_debugging_mvcc_watch_stream_total":                        1,
		"etcd_debugging_mvcc_watcher_total":                             1,
		"etcd_debugging_mvcc_slow_watcher_total":                        0,
		"etcd_server_has_leader":                                        1,
		"etcd_server_is_leader":                                         1,
		"etcd_server_quota_backend_bytes":                               2 << 30,
		"etcd_disk_wal_fsync_duration_seconds":                          8,
		"sqlstore_batch_operations":                                     8,
		"etcd_server_proposals_committed_total":                         6,
		"sqlstore_operations_total":                                     8,
		"etcd_server_version":                                           1,
	} {
		if got := value(t, m, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// The load of the index reads in the background, and its end sends no signal.
	deadline, tick := time.After(30*time.Second), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for value(t, m, "etcd_mvcc_db_open_read_transactions") != 0 {
		select {
		case <-deadline:
			t.Fatal("a read transaction stays open")
		case <-tick.C:
		}
	}
	if total, used := value(t, m, "etcd_mvcc_db_total_size_in_bytes"),
		value(t, m, "etcd_mvcc_db_total_size_in_use_in_bytes"); used <= 0 || total < used {
		t.Errorf("size %v, in use %v", total, used)
	}
}
