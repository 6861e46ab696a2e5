package recent

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The metrics that a reading needs.
const (
	putsTotal       = "etcd_mvcc_put_total"
	deletesTotal    = "etcd_mvcc_delete_total"
	currentRevision = "etcd_debugging_mvcc_current_revision"
	rangesTotal     = "etcd_mvcc_range_total"
	objectsTotal    = "sqlstore_objects_requests_total"
	commitSeconds   = "etcd_disk_backend_commit_duration_seconds"
	rangeSeconds    = "etcd_server_range_duration_seconds"
	watchesOpen     = "etcd_debugging_mvcc_watcher_total"
	watchesSlow     = "etcd_debugging_mvcc_slow_watcher_total"
	sizeTotal       = "etcd_mvcc_db_total_size_in_bytes"
	sizeInUse       = "etcd_mvcc_db_total_size_in_use_in_bytes"
	sizeWAL         = "sqlstore_wal_bytes"
	sizeQuota       = "etcd_server_quota_backend_bytes"
	keysTotal       = "etcd_debugging_mvcc_keys_total"
	cacheHits       = "sqlstore_value_cache_hits_total"
	cacheMisses     = "sqlstore_value_cache_misses_total"
	residentMemory  = "process_resident_memory_bytes"
)

var families = []string{
	putsTotal, deletesTotal, currentRevision, rangesTotal, objectsTotal, commitSeconds, rangeSeconds, watchesOpen,
	watchesSlow, sizeTotal, sizeInUse, sizeWAL, sizeQuota, keysTotal, cacheHits, cacheMisses, residentMemory,
}

// reading is what the metrics said at one time. A number is NaN if they did not have it.
type reading struct {
	at time.Time

	writes, revision, reads, hits, misses float64
	commits, ranges                       buckets

	watches, slowWatches                   float64
	total, inUse, wal, quota, keys, memory float64
}

// parse reads metrics in Prometheus' text format.
func parse(now time.Time, text []byte) (*reading, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parse the metrics: %w", err)
	}
	number := func(name string) float64 {
		if of := all[name].GetMetric(); len(of) == 1 {
			return value(of[0])
		}
		return math.NaN()
	}
	read := &reading{
		at: now, writes: number(putsTotal) + number(deletesTotal), revision: number(currentRevision),
		reads: number(rangesTotal) + objectReads(all[objectsTotal]), hits: number(cacheHits),
		misses: number(cacheMisses), commits: bucketsOf(all[commitSeconds]), ranges: bucketsOf(all[rangeSeconds]),
		watches: number(watchesOpen), slowWatches: number(watchesSlow), total: number(sizeTotal),
		inUse: number(sizeInUse), wal: number(sizeWAL), quota: number(sizeQuota), keys: number(keysTotal),
		memory: number(residentMemory),
	}
	return read, nil
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

// objectReads returns the gets and lists of the list/watch API; without any, it has no such metric.
func objectReads(family *dto.MetricFamily) (n float64) {
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "verb" && (l.GetValue() == "get" || l.GetValue() == "list") {
				n += value(m)
			}
		}
	}
	return n
}

// bucketsOf returns the sum of a family's histograms, which have the same bounds; empty if there is none.
func bucketsOf(family *dto.MetricFamily) buckets {
	sums := map[float64]float64{}
	for _, m := range family.GetMetric() {
		for _, b := range m.GetHistogram().GetBucket() {
			sums[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	out := make(buckets, 0, len(sums))
	for bound, n := range sums {
		out = append(out, bucket{bound, n})
	}
	slices.SortFunc(out, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	return out
}
