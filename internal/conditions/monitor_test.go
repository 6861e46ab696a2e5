package conditions_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/status"
)

// Concurrent callers share a check, which begins after the last of them has called.
func TestChecksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const check = 5 * time.Second
		var checks, generation atomic.Int64
		m := conditions.NewMonitor(slog.New(slog.DiscardHandler), func(time.Time) *conditions.Inputs {
			checks.Add(1)
			in := &conditions.Inputs{Generation: generation.Load(), Stage: conditions.Serving, Setup: "x"}
			time.Sleep(check)
			return in
		})
		began := time.Now()
		go m.Check()
		synctest.Wait()
		generation.Store(7)
		var asked sync.WaitGroup
		for range 100 {
			asked.Go(func() {
				if c := status.Find(m.Check(), status.Accepted); c.ObservedGeneration != 7 {
					t.Errorf("checked before the call: %+v", c)
				}
			})
		}
		asked.Wait()
		if took := time.Since(began); took != 2*check || checks.Load() != 2 {
			t.Errorf("%d checks in %s", checks.Load(), took)
		}
	})
}

// A caller that cannot wait for a check gets the result of the last one.
func TestCheckHeedsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		close(block)
		m := conditions.NewMonitor(slog.New(slog.DiscardHandler), func(time.Time) *conditions.Inputs {
			<-block
			return &conditions.Inputs{Generation: 1, InForce: 1, Stage: conditions.Serving, Setup: "x"}
		})
		m.Check()
		block = make(chan struct{})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if c := status.Find(m.CheckContext(ctx), status.Ready); c == nil || c.Status != status.True {
			t.Errorf("got %+v", c)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %s", took)
		}
		close(block)
	})
}
