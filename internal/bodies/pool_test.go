package bodies

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	mib    = 1 << 20
	minute = time.Minute
	grace  = minute / graceShare
	stall  = minute / stallShare
)

// entered is a body that was admitted; cut reports whether it was aborted, and then it is gone.
type entered struct {
	*claim
	cut bool
}

// enter admits a body, which leaves as soon as it is aborted.
func enter(t *testing.T, b *pool, bytes int64) *entered {
	t.Helper()
	e, err := tryEnter(t.Context(), b, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tryEnter(ctx context.Context, b *pool, bytes int64) (*entered, error) {
	e := &entered{}
	var err error
	e.claim, err = b.reserve(ctx, bytes, func() {
		e.cut = true
		go e.release()
	})
	return e, err
}

// fill admits as many bodies as have capacity.
func fill(t *testing.T, b *pool, n int) (all []*entered) {
	t.Helper()
	for range n {
		all = append(all, enter(t, b, mib))
	}
	return all
}

// serve fills the pool with bodies that have arrived.
func serve(t *testing.T, b *pool) []*entered {
	t.Helper()
	all := fill(t, b, budgetBytes/mib)
	for _, e := range all {
		e.arrived()
	}
	return all
}

// empty checks that the pool is unused: all of it is available, and no more.
func empty(t *testing.T, b *pool, capacity int64) {
	t.Helper()
	synctest.Wait()
	if len(b.arriving) != 0 {
		t.Errorf("%d bodies are being read", len(b.arriving))
	}
	all := enter(t, b, capacity)
	if b.free > 0 {
		t.Error("there is more capacity than there was")
	}
	all.release()
}

// cuts returns the indexes of the aborted bodies.
func cuts(all []*entered) (n []int) {
	synctest.Wait()
	for i, e := range all {
		if e.cut {
			n = append(n, i)
		}
	}
	return n
}

// A body without capacity is refused after a while, unless capacity becomes free.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPool(budgetBytes, minute)
		all := serve(t, b)
		began := time.Now()
		if _, err := tryEnter(t.Context(), b, mib); !errors.Is(err, ErrFull) || time.Since(began) != waitTimeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		time.AfterFunc(time.Second, all[7].release)
		began = time.Now()
		enter(t, b, mib).release()
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited for %s", took)
		}
		for _, e := range all {
			e.release()
			e.release() // releasing twice has no further effect
		}
		if n := cuts(all); len(n) > 0 {
			t.Errorf("%v had to give way", n)
		}
		empty(t, b, budgetBytes)
	})
}

// Bodies that have had their time give way, the oldest first, and only as many as necessary.
func TestSlowBodiesAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPool(budgetBytes, minute)
		all := fill(t, b, budgetBytes/mib)
		all[0].arrived() // it is being served, and is not slow
		time.Sleep(grace)
		began := time.Now()
		young := enter(t, b, 2*mib)
		if n := cuts(all); !slices.Equal(n, []int{1, 2}) || time.Since(began) != 0 {
			t.Errorf("%v gave way after %s", n, time.Since(began))
		}
		for _, e := range all[3:] {
			e.arrived()
		}
		began = time.Now()
		enter(t, b, mib).release()
		if took := time.Since(began); took != stall || !young.cut {
			t.Errorf("capacity after %s; the one that had time left was cut: %v", took, young.cut)
		}
		for _, e := range all {
			e.release()
		}
		empty(t, b, budgetBytes)
	})
}

// A body that is slow to leave after an abort frees capacity for only one other.
func TestIsEvictedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPool(budgetBytes, minute)
		aborts := make([]int, budgetBytes/mib)
		for i := range aborts {
			if _, err := b.reserve(t.Context(), mib, func() { aborts[i]++ }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(grace)
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if _, err := tryEnter(t.Context(), b, mib); !errors.Is(err, ErrFull) {
					t.Error(err)
				}
			})
			synctest.Wait()
			b.mu.Lock()
			b.update() // as when one of those that are in use leaves
			b.mu.Unlock()
		}
		for _, p := range slices.Clone(b.arriving) {
			p.arrived()
		}
		waiting.Wait()
		if !slices.Equal(aborts[:4], []int{1, 1, 1, 0}) {
			t.Errorf("the oldest were aborted %v times", aborts[:4])
		}
	})
}

// Bodies that arrive in time keep their capacity to the end of their time; one that sends nothing, or too little, does
// not.
func TestOverdueIsEvicted(t *testing.T) {
	const tick = stall / 4
	for name, c := range map[string]struct {
		sends func(at time.Duration) int
		want  time.Duration
	}{
		"nothing":          {func(time.Duration) int { return 0 }, stall},
		"a byte at a time": {func(time.Duration) int { return 1 }, stall + tick},
		"all but a byte at once": {func(at time.Duration) int {
			if at == tick {
				return mib - 1
			}
			return 0
		}, stall + tick},
		"all in time": {func(time.Duration) int { return int(mib * tick / grace) }, grace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPool(budgetBytes, minute)
				all := serve(t, b)
				all[0].release()
				one := enter(t, b, mib)
				began := time.Now()
				for !one.cut {
					time.Sleep(tick)
					one.received(c.sends(time.Since(began)))
					ctx, cancel := context.WithCancel(t.Context())
					waiting := make(chan struct{})
					go func() {
						defer close(waiting)
						if e, err := tryEnter(ctx, b, mib); err == nil {
							e.release()
						}
					}()
					synctest.Wait()
					cancel()
					<-waiting
					synctest.Wait()
				}
				if took := time.Since(began); took != c.want {
					t.Errorf("gave way after %s, want %s", took, c.want)
				}
			})
		})
	}
}

// A body that waits for another one to be due is admitted when it is, also if that changes meanwhile.
func TestDueMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPool(budgetBytes, minute)
		all := serve(t, b)
		all[0].release()
		one := enter(t, b, mib)
		time.AfterFunc(stall/2, func() { one.received(mib / 2) })
		began := time.Now()
		enter(t, b, mib).release()
		if took := time.Since(began); took != stall+stall/2 || !one.cut {
			t.Errorf("admitted after %s", took)
		}
	})
}
