package bodies

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const (
	mib    = 1 << 20
	minute = time.Minute
	grace  = minute / graceShare
)

// entered is a body that was admitted; cut reports whether it was aborted, and then it is gone.
type entered struct {
	came, release func()
	cut           bool
}

// enter admits a body, which leaves as soon as it is aborted.
func enter(t *testing.T, b *Budget, bytes int64) *entered {
	t.Helper()
	e, err := tryEnter(t.Context(), b, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tryEnter(ctx context.Context, b *Budget, bytes int64) (*entered, error) {
	e := &entered{}
	var err error
	e.came, e.release, err = b.Enter(ctx, bytes, func() {
		e.cut = true
		go e.release()
	})
	return e, err
}

// fill admits as many bodies as have room.
func fill(t *testing.T, b *Budget, n int) (all []*entered) {
	t.Helper()
	for range n {
		all = append(all, enter(t, b, mib))
	}
	return all
}

// empty checks that the budget is unused: all of it is available, and no more.
func empty(t *testing.T, b *Budget, room int64) {
	t.Helper()
	synctest.Wait()
	if len(b.coming) != 0 {
		t.Errorf("%d bodies are being read", len(b.coming))
	}
	all := enter(t, b, room)
	if b.room.TryAcquire(1) {
		t.Error("there is more room than there was")
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

// The budget has room for several of the largest bodies, and is never less than the constant.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty(t, NewBudget(mib, minute), budgetBytes)
		empty(t, NewBudget(100*mib, minute), leastBodies*100*mib)
	})
}

// A body without room is refused after a while, unless room becomes free.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		all := fill(t, b, budgetBytes/mib)
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
func TestSlowBodiesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		all := fill(t, b, budgetBytes/mib)
		all[0].came() // it is being served, and is not slow
		time.Sleep(grace)
		began := time.Now()
		young := enter(t, b, 2*mib)
		if n := cuts(all); !slices.Equal(n, []int{1, 2}) || time.Since(began) != 0 {
			t.Errorf("%v gave way after %s", n, time.Since(began))
		}
		for _, e := range all[3:] {
			e.came()
		}
		if _, err := tryEnter(t.Context(), b, mib); !errors.Is(err, ErrFull) || young.cut {
			t.Errorf("%v; the one that has time left was cut: %v", err, young.cut)
		}
		young.release()
		for _, e := range all {
			e.release()
		}
		empty(t, b, budgetBytes)
	})
}

// A body that is slow to leave after an abort makes room for only one other.
func TestGivesWayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		aborts := make([]int, budgetBytes/mib)
		for i := range aborts {
			if _, _, err := b.Enter(t.Context(), mib, func() { aborts[i]++ }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(grace)
		for range 3 {
			if _, err := tryEnter(t.Context(), b, mib); !errors.Is(err, ErrFull) {
				t.Error(err)
			}
		}
		if !slices.Equal(aborts[:4], []int{1, 1, 1, 0}) {
			t.Errorf("the oldest were aborted %v times", aborts[:4])
		}
	})
}

// A body that arrives shortly before others have had their time is admitted when they have.
func TestGraceEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		all := fill(t, b, budgetBytes/mib)
		time.Sleep(grace - waitTimeout - time.Millisecond)
		if _, err := tryEnter(t.Context(), b, mib); !errors.Is(err, ErrFull) || len(cuts(all)) > 0 {
			t.Errorf("%v; %v gave way before their time", err, cuts(all))
		}
		began := time.Now()
		enter(t, b, mib).release()
		if took := time.Since(began); took != time.Millisecond || !slices.Equal(cuts(all), []int{0}) {
			t.Errorf("%v gave way after %s", cuts(all), took)
		}
	})
}

// Waiting bodies are admitted in the order of their arrival, whatever their size.
func TestOrderOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
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
		b := NewBudget(mib, minute)
		all := fill(t, b, budgetBytes/mib)
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
