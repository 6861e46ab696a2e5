package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// awaits starts waiting for a revision and returns a function that blocks until that wait ends.
func awaits(ctx context.Context, t *testing.T, s *Store, revision int64) (end func() (int64, error)) {
	t.Helper()
	var current int64
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		current, err = s.AwaitRevision(ctx, revision)
	}()
	return func() (int64, error) {
		<-done
		return current, err
	}
}

func TestAwaitRevision(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		put(t, s, "k", "v") // 2
		for _, revision := range []int64{0, 1, 2} {
			if current, err := s.AwaitRevision(within(t), revision); err != nil || current != 2 {
				t.Errorf("wait for the published revision %d: %d, %v", revision, current, err)
			}
		}
		third, fourth, sixth := awaits(within(t), t, s, 3), awaits(within(t), t, s, 4), awaits(within(t), t, s, 6)
		given, cancel := context.WithCancel(within(t))
		fifth := awaits(given, t, s, 5)
		put(t, s, "k", "v")
		if current, err := third(); err != nil || current != 3 {
			t.Errorf("wait for revision 3: %d, %v", current, err)
		}
		cancel()
		if current, err := fifth(); !errors.Is(err, context.Canceled) || current != 3 {
			t.Errorf("canceled at revision 3: %d, %v", current, err)
		}
		put(t, s, "k", "v")
		if current, err := fourth(); err != nil || current != 4 {
			t.Errorf("wait for revision 4: %d, %v", current, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if current, err := sixth(); !errors.Is(err, ErrClosed) || current != 4 {
			t.Errorf("after Close: %d, %v", current, err)
		}
	})
}

// TestAwaitRevisionByMany starts and cancels waits for many revisions while they are written.
func TestAwaitRevisionByMany(t *testing.T) {
	const revisions, each = 60, 5
	s := openStore(t, openSQLite(t), Config{})
	var wg sync.WaitGroup
	for i := range revisions * each {
		revision := int64(2 + i%revisions)
		ctx, cancel := context.WithCancel(within(t))
		if i >= revisions*(each-1) {
			cancel() // at an arbitrary time
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
}

// TestAwaitRevisionOfAnotherReplica waits on one replica for revisions that another replica writes.
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

// TestAwaitRevisionAfterReset waits for the revision that a store reads from the database after a reset.
func TestAwaitRevisionAfterReset(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	end := awaits(within(t), t, s, 9)
	s.index.Reset(backend.Clock{Revision: 9, Epoch: s.Epoch()})
	if current, err := end(); err != nil || current != 9 {
		t.Errorf("%d, %v", current, err)
	}
}
