package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// fakeClock is a clock that only a test moves.
type fakeClock struct{ nanos atomic.Int64 }

func (c *fakeClock) now() time.Time       { return time.Unix(1_000_000, c.nanos.Load()) }
func (c *fakeClock) pass(d time.Duration) { c.nanos.Add(int64(d)) }

// expired waits until the store has no lease any more, by the deletion that a watch shows.
func expired(t *testing.T, s *Store, clock *fakeClock, key string, pass time.Duration) {
	t.Helper()
	st := s.NewWatchStream()
	defer st.Close()
	st.Watch(WatchRequest{Key: []byte(key), PrevKV: true})
	next(t, st)
	clock.pass(pass)
	r := next(t, st)
	if len(r.Events) != 1 || !r.Events[0].Row.Deleted || r.Events[0].Prev == nil {
		t.Fatalf("got %+v", r)
	}
}

func grant(t *testing.T, s *Store, id, ttl int64, keys ...string) {
	t.Helper()
	if _, err := s.LeaseGrant(within(t), id, ttl); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if _, err := s.Put(within(t), &PutRequest{Key: []byte(k), Lease: id}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeaseExpires(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		clock := &fakeClock{}
		cfg.Now = clock.now
		s := openStore(t, openSQLite(t), cfg)
		grant(t, s, 1, 10, "a")
		grant(t, s, 2, 20, "b")
		clock.pass(9 * time.Second)
		if ttl, err := s.LeaseRenew(within(t), 1); err != nil || ttl != 10 {
			t.Fatalf("renewed for %d, %v", ttl, err)
		}
		clock.pass(9 * time.Second) // 18 s: past what was granted at first
		if l, _, err := s.LeaseTimeToLive(within(t), 1, false); err != nil || l.Remaining != time.Second {
			t.Fatalf("renewed, and now %+v, %v", l, err)
		}
		expired(t, s, clock, "a", time.Second)
		if r := get(t, s, "b", 0); r == nil {
			t.Error("the other lease's key is gone, too")
		}
		if _, err := s.LeaseRenew(within(t), 1); !errors.Is(err, ErrLeaseNotFound) {
			t.Errorf("renewing an expired lease answers %v", err)
		}
		if ids, err := s.Leases(within(t)); err != nil || len(ids) != 1 || ids[0] != 2 {
			t.Errorf("left are %v, %v", ids, err)
		}
	})
}

func TestLeaseGetsItsFullTTLAfterARestart(t *testing.T) {
	clock := &fakeClock{}
	b := openSQLite(t)
	s := openStore(t, b, Config{Now: clock.now})
	grant(t, s, 1, 10, "a")
	clock.pass(9 * time.Second)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, b, Config{Now: clock.now})
	if l, keys, err := s.LeaseTimeToLive(within(t), 1, true); err != nil || l.Remaining != 10*time.Second || len(keys) != 1 {
		t.Fatalf("after a restart %+v %q, %v", l, keys, err)
	}
	expired(t, s, clock, "a", 10*time.Second)
}

// A lease whose revocation is in a commit cannot be renewed; one whose commit failed can, where time was given back.
func TestLeaseIsNotRenewedWhileItExpires(t *testing.T) {
	clock := &fakeClock{}
	hold := newBlocked()
	var fail atomic.Bool
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(e *backend.Effects, through func() error) error {
		if len(e.Revoked) == 0 {
			return through()
		}
		hold.first()
		if fail.Load() {
			return fmt.Errorf("not now: %w", backend.ErrUnavailable)
		}
		return through()
	}
	s := openStore(t, f, Config{Now: clock.now})
	grant(t, s, 1, 10, "a")
	fail.Store(true)
	clock.pass(10 * time.Second)
	<-hold.entered
	clock.pass(-time.Second) // as extend does
	if _, err := s.LeaseRenew(within(t), 1); !errors.Is(err, ErrLeaseNotFound) {
		t.Errorf("renewing in the middle answers %v", err)
	}
	close(hold.release)
	ctx := within(t)
	for {
		if _, err := s.LeaseRenew(ctx, 1); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("a lease that was not revoked cannot be renewed")
		}
	}
	fail.Store(false)
	if r := get(t, s, "a", 0); r == nil {
		t.Fatal("its key is gone")
	}
	expired(t, s, clock, "a", 11*time.Second)
}

// Renewals and expiry at the same moment: whoever was told that the lease lives has its key.
func TestLeaseRenewalRacesExpiry(t *testing.T) {
	clock := &fakeClock{}
	s := openStore(t, openSQLite(t), Config{Now: clock.now})
	for id := int64(1); id <= 50; id++ {
		key := fmt.Sprint(id)
		grant(t, s, id, 10, key)
		var wg sync.WaitGroup
		var renewed error
		wg.Go(func() { clock.pass(10 * time.Second) })
		wg.Go(func() { _, renewed = s.LeaseRenew(within(t), id) })
		wg.Go(func() {
			_, err := s.seq.do(context.Background(), &revokeOperation{id: id, expired: true})
			if err != nil && !errors.Is(err, ErrLeaseNotFound) {
				t.Error(err)
			}
		})
		wg.Wait()
		l, _, err := s.LeaseTimeToLive(within(t), id, false)
		if renewed == nil && err == nil && l.Remaining > 0 && get(t, s, key, 0) == nil {
			t.Errorf("lease %d lives, its key does not", id)
		}
		if renewed != nil && err == nil && l.Remaining > 0 {
			t.Errorf("lease %d lives, but could not be renewed: %v", id, renewed)
		}
	}
}

func TestLeaseBounds(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	if _, err := s.LeaseGrant(within(t), 0, maxTTL+1); !errors.Is(err, ErrLeaseTTL) {
		t.Errorf("too long answers %v", err)
	}
	for _, ttl := range []int64{-1, 0, 1, 2} {
		if l, err := s.LeaseGrant(within(t), 0, ttl); err != nil || l.Granted != 2*time.Second || l.ID <= 0 {
			t.Errorf("%d s answers %+v, %v", ttl, l, err)
		}
	}
	if l, err := s.LeaseGrant(within(t), -5, maxTTL); err != nil || l.Granted != maxTTL*time.Second {
		t.Errorf("the longest answers %+v, %v", l, err)
	}
	if _, err := s.LeaseGrant(within(t), -5, 10); !errors.Is(err, ErrLeaseExists) {
		t.Errorf("a second one answers %v", err)
	}
}
