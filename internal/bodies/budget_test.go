package bodies

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// begun is how much of a body arrives before it needs capacity of the last stage.
var begun = stages[len(stages)-1].most

// last returns the last stage.
func (b *Budget) last() *pool { return b.stages[len(b.stages)-1].pool }

// The budget has capacity for several of the largest bodies, and is never less than the constant.
func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		empty(t, NewBudget(mib, minute).last(), budgetBytes)
		empty(t, NewBudget(100*mib, minute).last(), leastBodies*100*mib)
	})
}

// Bodies that announce much and then send little do not delay others, as many as connect again and again.
func TestBodiesThatStopEarly(t *testing.T) {
	const stuck, announced = 90, 6 * mib
	for _, sent := range []int{Small + 1, 2 * Small} {
		synctest.Test(t, func(t *testing.T) {
			b := NewBudget(announced, minute)
			var all sync.WaitGroup
			var writers []*io.PipeWriter
			for range stuck {
				from, to := io.Pipe()
				writers = append(writers, to)
				all.Go(func() {
					abort := func() { _ = from.CloseWithError(errors.New("aborted")) }
					body, _ := b.Read(t.Context(), from, announced, announced, abort)
					body.Release()
				})
				_, _ = to.Write(make([]byte, sent))
			}
			synctest.Wait()
			for _, size := range []int64{3 * Small, mib, 2 * mib, announced} {
				began := time.Now()
				body, err := b.Read(t.Context(), bytes.NewReader(make([]byte, size)), size, announced, never(t))
				if err != nil || int64(len(body.Bytes)) != size || time.Since(began) != 0 {
					t.Errorf("%d bytes: %v after %s", size, err, time.Since(began))
				}
				body.Release()
			}
			for _, to := range writers {
				_ = to.Close()
			}
			all.Wait()
			checkStages(t, b)
		})
	}
}

// Each stage ends with the body: what was reserved for it is free, whatever stage it has reached.
func TestStagesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(2*begun, minute)
		for _, size := range []int64{Small + 1, stages[0].most, stages[0].most + 1, begun, begun + 1, 2 * begun} {
			for _, length := range []int64{size, -1} {
				for _, whole := range []bool{true, false} {
					text := bytes.Repeat([]byte("x"), int(size))
					var from io.Reader = bytes.NewReader(text)
					if !whole {
						from = io.MultiReader(bytes.NewReader(text[1:]), iotest.ErrReader(io.ErrUnexpectedEOF))
					}
					body, err := b.Read(t.Context(), from, length, 2*begun, never(t))
					if (err == nil) != whole || whole && !bytes.Equal(body.Bytes, text) {
						t.Errorf("%d bytes announced as %d: %v", size, length, err)
					}
					body.Release()
				}
			}
		}
		checkStages(t, b)
	})
}

// A body that was aborted does not wait for more capacity: others count on what it has.
func TestAbortedBodiesDoNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		r, err := b.Reserve(t.Context(), mib, func() {})
		if err != nil {
			t.Fatal(err)
		}
		first, last := b.stages[0].pool, b.last()
		all := serve(t, last)
		time.Sleep(stall)
		for range stages[0].capacity/stages[0].most - 1 {
			enter(t, first, stages[0].most).arrived()
		}
		go func() { enter(t, first, stages[0].most).release() }()
		synctest.Wait() // until it has evicted the body
		if err := r.Grow(t.Context()); !errors.Is(err, ErrSlow) {
			t.Error(err)
		}
		r.Release()
		synctest.Wait()
		for _, e := range all {
			e.release()
		}
	})
}

// checkStages checks that no stage is in use.
func checkStages(t *testing.T, b *Budget) {
	t.Helper()
	for i, s := range b.stages {
		capacity := int64(budgetBytes)
		if i < len(stages) {
			capacity = stages[i].capacity
		}
		empty(t, s.pool, capacity)
	}
}
