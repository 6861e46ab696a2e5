package index

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sqlstore/sqlstore/backend"
)

// Each wait for a revision ends when its revision arrives, when its caller cancels, or when waits are no longer
// allowed. None stays registered.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := loaded(0)
		stop := make(chan struct{})
		type outcome struct {
			current int64
			reached bool
		}
		var mu sync.Mutex
		ended := map[int64]outcome{}
		wait := func(ctx context.Context, revision int64) {
			go func() {
				current, reached := x.Await(ctx, stop, revision)
				mu.Lock()
				defer mu.Unlock()
				ended[revision] = outcome{current, reached}
			}()
			synctest.Wait()
		}
		given, cancel := context.WithCancel(t.Context())
		for _, revision := range []int64{9, 3, 7, 1, 4} {
			wait(t.Context(), revision)
		}
		wait(given, 5)
		expect := func(what string, waiting int, revision int64, want outcome) {
			t.Helper()
			synctest.Wait()
			if got, ok := ended[revision]; !ok || got != want {
				t.Errorf("%s: the wait for %d ended: %v, %+v", what, revision, ok, got)
			}
			if n := len(x.awaited); n != waiting {
				t.Errorf("%s: %d waits are registered", what, n)
			}
		}
		expect("a revision of before", 5, 1, outcome{1, true})
		x.Apply(nil, 3, 0)
		expect("applied", 4, 3, outcome{3, true})
		cancel()
		expect("canceled", 3, 5, outcome{3, false})
		x.Reset(backend.Clock{Revision: 7})
		expect("reset", 1, 4, outcome{7, true})
		expect("reset", 1, 7, outcome{7, true})
		close(stop)
		expect("stopped", 0, 9, outcome{7, false})
	})
}
