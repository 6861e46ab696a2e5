package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// BenchmarkEventOfAnotherReplica measures the time from the answer to a put until another replica shows its event, one
// put at a time.
func BenchmarkEventOfAnotherReplica(b *testing.B) {
	all := openReplicas(b, 2, Config{})
	st := watchAll(b, all[1], 0)
	eventually(b, "both replicas listen", func() bool {
		return replicaOf(all[0]).hints.Load() && replicaOf(all[1]).hints.Load() && len(all[0].Members()) == 2
	})
	var behind, took []time.Duration
	pause := time.NewTicker(3 * time.Millisecond)
	defer pause.Stop()
	for b.Loop() {
		<-pause.C
		began := time.Now()
		answered := make(chan time.Duration, 1)
		go func() {
			put(b, all[0], "k", "v")
			answered <- time.Since(began)
		}()
		next(b, st)
		seen := time.Since(began)
		took = append(took, seen)
		behind = append(behind, seen-<-answered)
	}
	for name, all := range map[string][]time.Duration{"begin": took, "answer": behind} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "us-after-"+name+"-p50")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "us-after-"+name+"-p99")
	}
}

// BenchmarkDatabasesOfOneServer writes through two replicas of each of several databases on one server.
func BenchmarkDatabasesOfOneServer(b *testing.B) {
	for _, databases := range []int{1, 20} {
		b.Run(fmt.Sprint(databases), func(b *testing.B) {
			var all []*Store
			for range databases {
				all = append(all, replicasOn(b, 2, Config{}, pgserver.Database(b))...)
			}
			for _, s := range all {
				eventually(b, "the other replica joins", func() bool { return len(s.Members()) == 2 })
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for i, s := range all {
				wg.Go(func() {
					for next.Add(1) <= int64(b.N) {
						if _, err := s.Put(context.Background(),
							&PutRequest{Key: fmt.Append(nil, i), Value: benchValue}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// BenchmarkOneReplica writes through the only replica of a shared database.
func BenchmarkOneReplica(b *testing.B) {
	s := openReplicas(b, 1, Config{QuotaBytes: -1})[0]
	eventually(b, "the index is complete", func() bool { return complete(s) })
	clients(b, func(n int64) { mustTxn(b, s, create(benchKey(n))) })
}
