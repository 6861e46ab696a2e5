package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// fairWithin is how long a case goes on while a replica has less than half of its share. On a busy machine it is chance
// who gets the clock next, and a few seconds allow only a few batches, too few to compare shares.
const fairWithin = time.Minute

// TestReplicasShareTheClock makes all replicas write as fast as they can. No write fails, and within a minute each
// replica has at least half of its fair share.
func TestReplicasShareTheClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ replicas, kib int }{{2, 1}, {3, 10}, {2, 100}} {
		t.Run(fmt.Sprintf("%d replicas, %d KiB", c.replicas, c.kib),
			func(t *testing.T) { shareTheClock(t, c.replicas, c.kib) })
	}
}

func shareTheClock(t *testing.T, replicas, kib int) {
	const writers = 200
	least := int64(2 * writers * replicas)
	start, lasts := time.Now(), env.Length.Seconds(t, time.Second)
	all := openReplicas(t, replicas, Config{QuotaBytes: -1})
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	value := bytes.Repeat([]byte("v"), kib<<10)
	written, slowest := make([]atomic.Int64, replicas), make([]time.Duration, replicas)
	var total atomic.Int64
	fair := func(i int) bool { return written[i].Load()*int64(2*replicas) >= total.Load() }
	allFair := func() bool {
		for i := range all {
			if !fair(i) {
				return false
			}
		}
		return true
	}
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
					case ctx.Err() != nil: // it was in flight at the end and does not count
					case err == nil:
						slowest[i] = max(slowest[i], took)
						written[i].Add(1)
						lasted := time.Since(start)
						if total.Add(1) >= least && lasted >= lasts && (allFair() || lasted >= fairWithin) {
							enough()
						}
					default:
						failed = append(failed, err)
					}
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for i, s := range all {
		n := written[i].Load()
		stats, _ := s.ReplicaStats()
		t.Logf("replica %d wrote %d of %d, the slowest in %v; %d batches began ahead, %d took the clock again", i, n,
			total.Load(),
			slowest[i].Round(time.Millisecond), stats.Ahead, stats.Again)
		if !fair(i) {
			t.Errorf("replica %d has less than half of its share", i)
		}
	}
	if len(failed) > 0 {
		t.Errorf("%d writes failed, the first with: %v", len(failed), failed[0])
	}
}
