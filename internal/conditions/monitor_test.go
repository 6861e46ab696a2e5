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
)

// Concurrent callers share a check, which begins after the last of them has called.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const look = 5 * time.Second
		var looks, generation atomic.Int64
		m := conditions.NewMonitor(slog.New(slog.DiscardHandler), func(time.Time) *conditions.Inputs {
			looks.Add(1)
			in := &conditions.Inputs{Generation: generation.Load(), Stage: conditions.Serving, Setup: "x"}
			time.Sleep(look)
			return in
		})
		began := time.Now()
		go m.Look()
		synctest.Wait()
		generation.Store(7)
		var asked sync.WaitGroup
		for range 100 {
			asked.Go(func() {
				if c := conditions.Find(m.Look(), conditions.Accepted); c.ObservedGeneration != 7 {
					t.Errorf("checked before the call: %+v", c)
				}
			})
		}
		asked.Wait()
		if took := time.Since(began); took != 2*look || looks.Load() != 2 {
			t.Errorf("%d checks in %s", looks.Load(), took)
		}
	})
}

// A caller that cannot wait for a check gets the result of the last one.
func TestLookHeedsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		close(hang)
		m := conditions.NewMonitor(slog.New(slog.DiscardHandler), func(time.Time) *conditions.Inputs {
			<-hang
			return &conditions.Inputs{Generation: 1, InForce: 1, Stage: conditions.Serving, Setup: "x"}
		})
		m.Look()
		hang = make(chan struct{})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if c := conditions.Find(m.LookContext(ctx), conditions.Ready); c == nil || c.Status != conditions.True {
			t.Errorf("got %+v", c)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %s", took)
		}
		close(hang)
	})
}
