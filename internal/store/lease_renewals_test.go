package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// renewing blocks each statement that renews leases until the test decides its outcome.
type renewing struct {
	backend.Shared
	asked chan []int64
	end   chan error
}

func (b *renewing) RenewLeases(ctx context.Context, ids []int64) (renewed []backend.Lease, err error) {
	select {
	case b.asked <- ids:
	case <-ctx.Done():
	}
	for _, id := range ids {
		renewed = append(renewed, backend.Lease{ID: id, TTL: time.Duration(id) * time.Second})
	}
	select {
	case err = <-b.end:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return renewed, err
}

// Renewals share statements of bounded size: those over the bound wait for the next statement.
func TestRenewalsInGroups(t *testing.T) {
	b := &renewing{Shared: openShared(t, 1)[0].(backend.Shared), asked: make(chan []int64), end: make(chan error)}
	s := openStore(t, b, Config{})
	r := &replicaOf(s).lessor.renewals
	var wg sync.WaitGroup
	renew := func(ctx context.Context, id int64, want error) {
		wg.Go(func() {
			if ttl, err := s.LeaseRenew(ctx, id); !errors.Is(err, want) || err == nil && ttl != id {
				t.Errorf("lease %d renewed for %d s, %v; want %v", id, ttl, err, want)
			}
		})
	}
	queued := func(want ...int) {
		t.Helper()
		var have []int
		eventually(t, "callers in line", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			have = nil
			for _, g := range r.queue {
				n := 0
				for _, k := range g.keys {
					n += k.callers
				}
				have = append(have, n)
			}
			return slices.Equal(have, want)
		})
	}
	renew(t.Context(), 1, nil)
	if ids := <-b.asked; !slices.Equal(ids, []int64{1}) {
		t.Fatalf("the first statement renews %v", ids)
	}
	gone, leave := context.WithCancel(t.Context())
	renew(gone, 1, context.Canceled)
	renew(gone, 2, context.Canceled)
	queued(2)
	renew(t.Context(), 2, nil)
	queued(3)
	leave()
	queued(1)
	for id := int64(3); id < renewalLimit+2; id++ {
		renew(t.Context(), id, nil)
	}
	queued(renewalLimit)
	broken := errors.New("broken")
	renew(t.Context(), 1, broken)
	queued(renewalLimit, 1)
	renew(t.Context(), 2, nil)
	queued(renewalLimit+1, 1)
	b.end <- nil
	if ids := <-b.asked; len(ids) != renewalLimit || slices.Contains(ids, 1) {
		t.Errorf("the second statement renews %d leases", len(ids))
	}
	b.end <- nil
	if ids := <-b.asked; !slices.Equal(ids, []int64{1}) {
		t.Errorf("the third statement renews %v", ids)
	}
	b.end <- broken
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queued)+len(r.queue) != 0 {
		t.Errorf("%d leases and %d groups are left in the queue", len(r.queued), len(r.queue))
	}
}

// A renewal that is in progress when the store closes returns ErrClosed, not its caller's cancellation.
func TestRenewalWhileTheStoreCloses(t *testing.T) {
	b := &renewing{Shared: openShared(t, 1)[0].(backend.Shared), asked: make(chan []int64), end: make(chan error)}
	s := openStore(t, b, Config{})
	answer := make(chan error)
	go func() {
		_, err := s.LeaseRenew(context.Background(), 1)
		answer <- err
	}()
	<-b.asked
	go func() { _ = s.Close() }()
	if err := <-answer; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
