package telemetry_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sqlstore/sqlstore/internal/telemetry"
)

// series returns the values of a metric, or the counts of a histogram, by the values of its labels.
func series(t *testing.T, m *telemetry.Metrics, name string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, metric := range gather(t, m)[name].GetMetric() {
		var labels []string
		for _, l := range metric.Label { // in the order of their names
			labels = append(labels, l.GetValue())
		}
		value := metric.GetCounter().GetValue()
		if h := metric.Histogram; h != nil {
			value = float64(h.GetSampleCount())
			checkBuckets(t, h)
		}
		out[strings.Join(labels, " ")] = value
	}
	return out
}

func checkBuckets(t *testing.T, h *dto.Histogram) {
	t.Helper()
	var last uint64
	for _, b := range h.Bucket {
		if b.GetCumulativeCount() < last || b.GetCumulativeCount() > h.GetSampleCount() {
			t.Errorf("buckets %v", h.Bucket)
		}
		last = b.GetCumulativeCount()
	}
}

// The numbers of calls are always exact, though not every call is timed.
func TestSampledCallsAreCountedExactly(t *testing.T) {
	for _, extensive := range []bool{false, true} {
		m := telemetry.New(telemetry.Config{Version: "3.7.3", Extensive: extensive})
		unary := m.Unary()
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("client-api-version", "3.7.3"))
		for n := 1; n <= 18; n++ { // beyond the second sample
			_, _ = unary(ctx, nil, rangeInfo, succeeds)
			for name, labels := range map[string]string{
				"etcd_server_range_duration_seconds": "true", "etcd_server_request_duration_seconds": "true Range",
				"etcd_server_client_requests_total": "3.7.3 unary", "etcd_mvcc_range_total": "",
			} {
				if got := series(t, m, name); len(got) != 1 || got[labels] != float64(n) {
					t.Fatalf("extensive %v: after %d calls %s is %v", extensive, n, name, got)
				}
			}
		}
	}
}

func TestConcurrentCallsAreCountedExactly(t *testing.T) {
	m := telemetry.New(telemetry.Config{Version: "3.7.3"})
	unary := m.Unary()
	const workers, each = 8, 500
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				_, _ = unary(t.Context(), nil, txnInfo, succeeds)
				_, _ = unary(t.Context(), nil, grantInfo, fails)
			}
		})
	}
	for range 10 { // scrapes beside them
		if _, err := m.Registry.Gather(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	got := series(t, m, "etcd_server_request_duration_seconds")
	if len(got) != 2 || got["true Txn"] != workers*each || got["false LeaseGrant"] != workers*each {
		t.Errorf("%v", got)
	}
	if got := series(t, m, "etcd_server_client_requests_total"); got["unknown unary"] != 2*workers*each {
		t.Errorf("%v", got)
	}
}

// Clients choose their versions: these must neither fill the memory nor break the scrape.
func TestVersionsAreBounded(t *testing.T) {
	m := telemetry.New(telemetry.Config{Version: "3.7.3"})
	unary := m.Unary()
	call := func(version string, info *grpc.UnaryServerInfo) {
		_, _ = unary(metadata.NewIncomingContext(t.Context(), metadata.Pairs("client-api-version", version)), nil,
			info, succeeds)
	}
	for _, odd := range []string{"\xff", "", "3.7 beta", "3.7\n", strings.Repeat("1", 33), strings.Repeat("a", 1<<20)} {
		call(odd, defragInfo)
	}
	for i := range 100 { // of several types: their total is bounded
		call(fmt.Sprint("v", i), []*grpc.UnaryServerInfo{
			grantInfo, defragInfo,
			{FullMethod: "/etcdserverpb.Cluster/MemberList"},
		}[i%3])
	}
	got := series(t, m, "etcd_server_client_requests_total")
	if len(got) != 34 || got["other unary"] != 68 || got["unknown unary"] != 6 {
		t.Errorf("%v", got)
	}
	if got := value(t, m, "etcd_disk_backend_defrag_duration_seconds"); got != 39 {
		t.Errorf("%v defragmentations", got)
	}
}

func TestStreamsAreCountedWhenTheyBegin(t *testing.T) {
	m := telemetry.New(telemetry.Config{Version: "3.7.3"})
	for _, method := range []string{"KV/RangeStream", "Maintenance/Snapshot"} {
		info := &grpc.StreamServerInfo{FullMethod: "/etcdserverpb." + method, IsServerStream: true}
		_ = m.Stream()(nil, idleStream{ctx: t.Context()}, info, func(any, grpc.ServerStream) error { return nil })
	}
	if got := series(t, m, "etcd_server_client_requests_total"); got["unknown stream"] != 2 {
		t.Errorf("%v", got)
	}
	if got := value(t, m, "etcd_disk_backend_snapshot_duration_seconds"); got != 1 {
		t.Errorf("%v snapshots", got)
	}
	if got := value(t, m, "etcd_mvcc_range_total"); got != 1 {
		t.Errorf("%v ranges", got)
	}
}

type idleStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s idleStream) Context() context.Context { return s.ctx }
