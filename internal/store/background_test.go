package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func TestBackground(t *testing.T) {
	var b background
	release, ended, closed := make(chan struct{}), false, make(chan struct{})
	if !b.start(func() { <-release; ended = true }) {
		t.Fatal("the background starts no work")
	}
	go func() {
		b.close()
		close(closed)
	}()
	eventually(t, "close begins", func() bool { return !b.start(func() {}) })
	close(release)
	<-closed
	if !ended || b.start(func() { t.Error("work started after close") }) {
		t.Error("close did not wait for running work, or allowed new work")
	}
}

// lateCalls makes calls from four goroutines, from before a store closes until a while after. Only the elapsed time
// ends them: the race detector would take a signal for synchronization.
func lateCalls(t *testing.T, s *Store, call func() error) {
	t.Helper()
	const after = 50 * time.Millisecond
	var wg, begun sync.WaitGroup
	begun.Add(4)
	for range 4 {
		wg.Go(func() {
			_ = call()
			begun.Done()
			for s.ctx.Err() == nil {
				_ = call()
			}
			for until := time.Now().Add(after); time.Now().Before(until); {
				_ = call()
			}
		})
	}
	begun.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := call(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Calls start no background work while Close waits for background work to end.
func TestCallsWhileTheStoreCloses(t *testing.T) {
	ctx := context.Background()
	t.Run("SQLite", func(t *testing.T) {
		clock := &fakeClock{}
		s := openStore(t, openSQLite(t), Config{Now: clock.now})
		l := s.lessor.(*lessor)
		lateCalls(t, s, func() error { // renews an expired lease, and grants it again
			_, grantErr := s.LeaseGrant(ctx, 1, 10)
			l.mu.Lock()
			if le := l.leases[1]; le != nil {
				le.deadline = clock.now()
			}
			l.mu.Unlock()
			_, renewErr := s.LeaseRenew(ctx, 1)
			return errors.Join(grantErr, renewErr)
		})
	})
	t.Run("Postgres", func(t *testing.T) {
		s := openReplicas(t, 1, Config{})[0]
		lateCalls(t, s, func() error {
			v, err := s.pin(0)
			if err != nil {
				return err
			}
			v.pin.shareNow()
			v.pin.end()
			v.snap.End()
			(&Export{s: s, shared: 4711}).Close()
			r := replicaOf(s)
			_, renewErr := r.lessor.renewOnce(ctx, 1)
			if _, err = r.confirm(ctx); errors.Is(err, ErrClosed) {
				return renewErr
			}
			return err
		})
	})
}
