package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fairTime is how long each case of TestReplicasShareTheClock lasts, by SQLSTORE_TEST_FAIR. Without it few cases run,
// each for some batches of every replica.
func fairTime(tb testing.TB) time.Duration {
	tb.Helper()
	s := os.Getenv("SQLSTORE_TEST_FAIR")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		tb.Fatal("SQLSTORE_TEST_FAIR: ", err)
	}
	return d
}

// TestReplicasShareTheClock has all replicas write as fast as they can. No write fails, and each replica gets at least
// half of its fair share.
func TestReplicasShareTheClock(t *testing.T) {
	type shape struct{ replicas, kib, few int }
	all := []shape{{3, 10, 5000}, {3, 100, 600}}
	if fairTime(t) > 0 {
		all = append(all, shape{replicas: 3, kib: 1}, shape{replicas: 2, kib: 1}, shape{replicas: 2, kib: 10}, shape{replicas: 2, kib: 100})
	}
	for _, c := range all {
		t.Run(fmt.Sprintf("%d replicas, %d KiB", c.replicas, c.kib), func(t *testing.T) { shareTheClock(t, c.replicas, c.kib, int64(c.few)) })
	}
}

func shareTheClock(t *testing.T, replicas, kib int, few int64) {
	writers := max(10, 500/kib) // batches that a busy machine, too, commits long before the others' wait for the clock ends
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	if d := fairTime(t); d > 0 {
		writers = 200
		ctx, enough = context.WithTimeout(ctx, d)
		defer enough()
		few = 0
	}
	all := openReplicas(t, replicas, Config{QuotaBytes: -1})
	value := bytes.Repeat([]byte("v"), kib<<10)
	written, slowest := make([]atomic.Int64, replicas), make([]time.Duration, replicas)
	var total atomic.Int64
	var mu sync.Mutex
	var failed []error
	var wg sync.WaitGroup
	for i, s := range all {
		for n := range writers {
			wg.Go(func() {
				key := fmt.Appendf(nil, "%d/%d", i, n)
				for ctx.Err() == nil {
					began := time.Now()
					_, err := s.Put(ctx, &PutRequest{Key: key, Value: value})
					took := time.Since(began)
					mu.Lock()
					switch {
					case err == nil:
						slowest[i] = max(slowest[i], took)
						written[i].Add(1)
					case ctx.Err() == nil:
						failed = append(failed, err)
					}
					mu.Unlock()
					if err == nil && total.Add(1) == few {
						enough()
					}
				}
			})
		}
	}
	wg.Wait()
	for i, s := range all {
		n := written[i].Load()
		stats, _ := s.FollowStats()
		t.Logf("replica %d wrote %d of %d, the slowest in %v; %d batches began ahead, %d took the clock again", i, n, total.Load(),
			slowest[i].Round(time.Millisecond), stats.Ahead, stats.Again)
		if n*int64(2*replicas) < total.Load() {
			t.Errorf("replica %d has less than half of its share", i)
		}
	}
	if len(failed) > 0 {
		t.Errorf("%d writes failed, the first with: %v", len(failed), failed[0])
	}
}
