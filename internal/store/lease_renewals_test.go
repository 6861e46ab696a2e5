package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
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

// lookingUp blocks each statement that reads leases until the test lets it go on.
type lookingUp struct {
	backend.Shared
	begun, proceed chan int // how many leases
}

func (b *lookingUp) LeaseStates(ctx context.Context, ids []int64) ([]backend.LeaseState, backend.Origin, error) {
	if ids != nil {
		b.begun <- len(ids)
		<-b.proceed
	}
	return b.Shared.LeaseStates(ctx, ids)
}

// Callers that ask for leases while others are read share the next statement, also for leases that do not exist.
func TestLookupsTogether(t *testing.T) {
	b := &lookingUp{Shared: openShared(t, 1)[0].(backend.Shared), begun: make(chan int), proceed: make(chan int)}
	s := openStore(t, b, Config{})
	l := replicaOf(s).lessor
	l.lookups.patience = time.Minute // nothing overtakes the first statement
	if _, err := s.LeaseGrant(within(t), 1, 60); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ask := func(id int64, want error) {
		all.Go(func() {
			lease, _, err := s.LeaseTimeToLive(within(t), id, false)
			if !errors.Is(err, want) || err == nil && lease.ID != id {
				t.Errorf("lease %d: %+v, %v; want %v", id, lease, err, want)
			}
		})
	}
	ask(1, nil)
	if n := <-b.begun; n != 1 {
		t.Errorf("the first statement reads %d leases", n)
	}
	const others = 20
	for id := range int64(others) { // no lease has the id 0
		want := ErrLeaseNotFound
		if id == 1 {
			want = nil
		}
		ask(id, want)
	}
	eventually(t, "callers in the queue", func() bool {
		l.lookups.mu.Lock()
		defer l.lookups.mu.Unlock()
		return len(l.lookups.queue) == 1 && len(l.lookups.queue[0].keys) == others
	})
	b.proceed <- 0
	if n := <-b.begun; n != others {
		t.Errorf("the second statement reads %d leases", n)
	}
	b.proceed <- 0
	all.Wait()
}

// slowState reads the state of a lease that does not exist for five seconds.
type slowState struct{ backend.Shared }

const slowLease = 666

func (b *slowState) LeaseStates(ctx context.Context, ids []int64) ([]backend.LeaseState, backend.Origin, error) {
	if slices.Contains(ids, slowLease) {
		time.Sleep(5 * time.Second)
	}
	return b.Shared.LeaseStates(ctx, ids)
}

// The answer to a renewal does not wait for those after it. One that has waited for those before it is renewed again.
// Virtual time shows how much of its TTL a lease has left at its answer.
func TestRenewalsBesideASlowOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := simdb.New(1, nil).Open()
		s := openStore(t, &slowState{shared}, Config{})
		for _, id := range []int64{1, 2, 3} {
			if _, err := s.LeaseGrant(t.Context(), id, 60); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		ids, next, began := []int64{1, 2, slowLease, 3}, 0, time.Now()
		err := s.LeaseRenewAll(t.Context(), ids, func(i int, r Renewal) error {
			if i != next {
				t.Errorf("answer %d, want %d", i, next)
			}
			next++
			if ids[i] == slowLease {
				if !errors.Is(r.Err, ErrLeaseNotFound) {
					t.Errorf("a lease that does not exist: %+v", r)
				}
				return nil
			}
			states, _, err := shared.LeaseStates(t.Context(), ids[i:i+1])
			if err != nil || r.Err != nil || r.TTL != 60 || states[0].Remaining < 59*time.Second {
				t.Errorf("lease %d: %+v, %+v, %v", ids[i], r, states, err)
			}
			if after := time.Since(began); i < 2 && after > time.Second {
				t.Errorf("lease %d: answer after %v", ids[i], after)
			}
			return nil
		})
		if err != nil || next != len(ids) {
			t.Errorf("%d answers, %v", next, err)
		}
		failure, got := errors.New("the client has gone"), []int64(nil)
		err = s.LeaseRenewAll(t.Context(), ids, func(i int, _ Renewal) error {
			got = append(got, ids[i])
			return failure
		})
		if !errors.Is(err, failure) || !slices.Equal(got, []int64{1, 2, 3}) {
			t.Errorf("after a failure: renewals of %v, %v; want those that were known", got, err)
		}
	})
}

// A renewal that is repeated needs the right to it again.
func TestRepeatedRenewalNeedsTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := simdb.New(1, nil).Open()
		s := openStore(t, &slowState{shared}, Config{})
		if _, err := s.LeaseGrant(t.Context(), 1, 60); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), &PutRequest{Key: []byte("w/1"), Lease: 1}); err != nil {
			t.Fatal(err)
		}
		enable(t, s)
		time.AfterFunc(time.Second, func() { change(t, s, auth.RevokeRole{User: "u", Role: "r"}) })
		var errs []error
		err := s.LeaseRenewAll(byUser(t, "u"), []int64{1, slowLease, 1}, func(_ int, r Renewal) error {
			errs = append(errs, r.Err)
			return nil
		})
		if err != nil || len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], ErrLeaseNotFound) ||
			!errors.Is(errs[2], auth.ErrPermissionDenied) {
			t.Errorf("renewals: %v, %v", errs, err)
		}
	})
}
