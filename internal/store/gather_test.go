package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// Callers that arrive while a query runs share the result of the next query, which starts after they arrive.
func TestAskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b background
		release, asked := make(chan struct{}), 0
		q := together(&b, func() (int, error) {
			asked++
			n := asked
			<-release
			return n, nil
		})
		var wg sync.WaitGroup
		get := func(want int) {
			wg.Go(func() {
				if got, err := q.get(t.Context(), struct{}{}, 0); got != want || err != nil {
					t.Errorf("answer %d, %v, want %d", got, err, want)
				}
			})
		}
		get(1)
		synctest.Wait()
		for range 100 {
			get(2)
		}
		gone, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := q.get(gone, struct{}{}, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("an abandoned call returned %v", err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		release <- struct{}{}
		synctest.Wait()
		release <- struct{}{}
		wg.Wait()
		if asked != 2 {
			t.Errorf("%d queries", asked)
		}
		b.close()
		if _, err := q.get(t.Context(), struct{}{}, 0); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}
