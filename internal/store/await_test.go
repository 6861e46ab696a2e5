package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// awaits starts a wait for a revision and returns when it is registered; the function that it returns waits for its
// end.
func awaits(ctx context.Context, t *testing.T, s *Store, revision int64) (end func() (int64, error)) {
	t.Helper()
	before := waitersOf(s)
	var current int64
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		current, err = s.AwaitRevision(ctx, revision)
	}()
	eventually(t, "the wait is registered", func() bool { return waitersOf(s) > before })
	return func() (int64, error) {
		<-done
		return current, err
	}
}

func waitersOf(s *Store) int {
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	return len(s.index.awaited)
}

func TestAwaitRevision(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		put(t, s, "k", "v") // 2
		for _, revision := range []int64{0, 1, 2} {
			if current, err := s.AwaitRevision(within(t), revision); err != nil || current != 2 {
				t.Errorf("revision %d is there: %d, %v", revision, current, err)
			}
		}
		third, fourth, sixth := awaits(within(t), t, s, 3), awaits(within(t), t, s, 4), awaits(within(t), t, s, 6)
		given, cancel := context.WithCancel(within(t))
		fifth := awaits(given, t, s, 5)
		put(t, s, "k", "v")
		if current, err := third(); err != nil || current != 3 {
			t.Errorf("revision 3: %d, %v", current, err)
		}
		cancel()
		if current, err := fifth(); !errors.Is(err, context.Canceled) || current != 3 {
			t.Errorf("given up at 3: %d, %v", current, err)
		}
		if n := waitersOf(s); n != 2 {
			t.Errorf("%d wait", n)
		}
		put(t, s, "k", "v")
		if current, err := fourth(); err != nil || current != 4 {
			t.Errorf("revision 4: %d, %v", current, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if current, err := sixth(); !errors.Is(err, ErrClosed) || current != 4 {
			t.Errorf("closed: %d, %v", current, err)
		}
		if n := waitersOf(s); n != 0 {
			t.Errorf("%d wait still", n)
		}
	})
}

// TestAwaitRevisionByMany has waits for many revisions come and go while they are written.
func TestAwaitRevisionByMany(t *testing.T) {
	const revisions, each = 60, 5
	s := openStore(t, openSQLite(t), Config{})
	var wg sync.WaitGroup
	for i := range revisions * each {
		revision := int64(2 + i%revisions)
		ctx, cancel := context.WithCancel(within(t))
		if i >= revisions*(each-1) {
			cancel() // at some time
		}
		wg.Go(func() {
			defer cancel()
			current, err := s.AwaitRevision(ctx, revision)
			if err == nil && current < revision || err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("wait for %d ended at %d, %v", revision, current, err)
			}
		})
	}
	for i := range revisions {
		put(t, s, "k", fmt.Sprint(i))
	}
	wg.Wait()
	if n := waitersOf(s); n != 0 {
		t.Errorf("%d wait still", n)
	}
}

// TestAwaitRevisionOfAnotherReplica waits on one replica for what the other one writes.
func TestAwaitRevisionOfAnotherReplica(t *testing.T) {
	all := openReplicas(t, 2, Config{})
	for n := range int64(10) {
		end := awaits(within(t), t, all[1], n+2)
		put(t, all[0], "k", fmt.Sprint(n))
		if current, err := end(); err != nil || current != n+2 {
			t.Fatalf("revision %d: %d, %v", n+2, current, err)
		}
		if row := get(t, all[1], "k", n+2); row == nil || string(row.Value) != fmt.Sprint(n) {
			t.Fatalf("at revision %d: %s", n+2, rowText(row))
		}
	}
}

// TestAwaitRevisionAfterReset waits for what a store finds in the database when it starts anew.
func TestAwaitRevisionAfterReset(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	end := awaits(within(t), t, s, 9)
	clock := s.clock
	clock.Revision = 9
	s.index.reset(clock)
	if current, err := end(); err != nil || current != 9 {
		t.Errorf("%d, %v", current, err)
	}
}

// TestStreamWithoutCount reads a page as one who knows how many rows follow it.
func TestStreamWithoutCount(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := streamStore(t, 20, cfg)
		for _, noCount := range []bool{false, true} {
			req := &RangeRequest{Key: []byte("k"), End: []byte("l"), Limit: 5, NoCount: noCount}
			res, err := s.RangeStream(within(t), req, func([]*Row) error { return nil })
			if err != nil || !res.More || res.Epoch != 1 || (res.Count == 5) != noCount || !noCount && res.Count != 20 {
				t.Errorf("without count: %t: %+v, %v", noCount, res, err)
			}
		}
	})
}
