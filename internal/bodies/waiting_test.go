package bodies

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// then send nothing.
func TestEvictionsAreForAll(t *testing.T) {
	const capacity = 10
	for _, idle := range []int{1, 5, 20} {
		synctest.Test(t, func(t *testing.T) {
			b, over := newPool(capacity, minute), make(chan struct{})
			for range capacity + idle { // each that waits is admitted when others give way, and is idle itself
				go func() {
					cut := make(chan struct{})
					p, err := b.reserve(t.Context(), 1, func() { close(cut) })
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case <-cut:
					case <-over:
					}
					p.release()
				}()
				synctest.Wait()
			}
			began := time.Now()
			e, err := tryEnter(t.Context(), b, 1)
			if want := stall * time.Duration(1+idle/capacity); err != nil || time.Since(began) != want {
				t.Fatalf("behind %d others: %v after %s, want %s", idle, err, time.Since(began), want)
			}
			e.release()
			close(over)
			empty(t, b, capacity)
		})
	}
}

// Many that arrive in time are all admitted, some after others. None waits for longer than its own time.
func TestWaitsWhileOthersArrive(t *testing.T) {
	const takes, most = 8 * time.Second, budgetBytes / mib
	synctest.Test(t, func(t *testing.T) {
		b := newPool(budgetBytes, minute)
		var all sync.WaitGroup
		var served, refused atomic.Int64
		for range 10 * most {
			all.Go(func() {
				began := time.Now()
				e, err := tryEnter(t.Context(), b, mib)
				switch wait := time.Since(began); {
				case err == nil && wait <= minute:
					for range mib / Small {
						time.Sleep(takes / (mib / Small))
						e.received(Small)
					}
					e.release()
					served.Add(1)
				case err != nil && wait == minute:
					refused.Add(1)
				default:
					t.Errorf("%v after %s", err, wait)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if served.Load() != 8*most || refused.Load() != 2*most { // they begin at 0, 8, ... 56 s
			t.Errorf("%d were served, %d refused", served.Load(), refused.Load())
		}
		empty(t, b, budgetBytes)
	})
}

// Waiting bodies are admitted in the order of their arrival, whatever their size.
func TestOrderOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPool(budgetBytes, minute)
		all := fill(t, b, budgetBytes/mib)
		var order []int64
		for _, bytes := range []int64{3 * mib, mib, 2 * mib} {
			go func() {
				if _, err := tryEnter(t.Context(), b, bytes); err != nil {
					t.Error(err)
				}
				order = append(order, bytes/mib)
			}()
			synctest.Wait()
		}
		for i, want := range [][]int64{nil, nil, {3}, {3, 1}, {3, 1}, {3, 1, 2}} {
			all[i].release()
			synctest.Wait()
			if !slices.Equal(order, want) {
				t.Fatalf("after %d were released %v are in, want %v", i+1, order, want)
			}
		}
	})
}

// A body that stops waiting leaves the queue without a trace.
func TestWaitingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPool(budgetBytes, minute)
		all := serve(t, b)
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		began := time.Now()
		if _, err := tryEnter(ctx, b, 2*mib); !errors.Is(err, ErrFull) || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		time.Sleep(grace) // no body waits for which others would have to give way
		if n := cuts(all); len(n) > 0 {
			t.Errorf("%v gave way without need", n)
		}
		for _, e := range all {
			e.release()
		}
		empty(t, b, budgetBytes)
	})
}
