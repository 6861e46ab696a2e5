package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// fakeClock is a clock that only a test advances.
type fakeClock struct{ nanos atomic.Int64 }

func (c *fakeClock) now() time.Time       { return time.Unix(1_000_000, c.nanos.Load()) }
func (c *fakeClock) pass(d time.Duration) { c.nanos.Add(int64(d)) }

// expired advances the clock by pass and waits until a watch shows that the lease's expiry deletes its key.
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
		clock.pass(9 * time.Second) // 18 s: past the first TTL
		if l, _, err := s.LeaseTimeToLive(within(t), 1, false); err != nil || l.Remaining != time.Second {
			t.Fatalf("after the renewal: %+v, %v", l, err)
		}
		expired(t, s, clock, "a", time.Second)
		if r := get(t, s, "b", 0); r == nil {
			t.Error("the other lease's key is gone")
		}
		if _, err := s.LeaseRenew(within(t), 1); !errors.Is(err, ErrLeaseNotFound) {
			t.Errorf("renewing an expired lease returned %v", err)
		}
		if left, err := s.Leases(within(t)); err != nil || len(left) != 1 || left[0].ID != 2 {
			t.Errorf("leases left: %v, %v", left, err)
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
	if l, keys, err := s.LeaseTimeToLive(within(t), 1, true); err != nil || l.Remaining != 10*time.Second ||
		len(keys) != 1 {
		t.Fatalf("after a restart %+v %q, %v", l, keys, err)
	}
	expired(t, s, clock, "a", 10*time.Second)
}

// The remaining time of an imported lease passes from the first start on. Before the next one, clients may have renewed
// it.
func TestLeaseContinuesAfterAnImport(t *testing.T) {
	clock := &fakeClock{}
	b := openSQLite(t)
	s := openStore(t, b, Config{Now: clock.now})
	grant(t, s, 1, 10, "a")
	grant(t, s, 2, 10, "b")
	left := func(id int64, want time.Duration) {
		t.Helper()
		if l, _, err := s.LeaseTimeToLive(within(t), id, false); err != nil || l.Granted != 10*time.Second ||
			l.Remaining != want {
			t.Fatalf("lease %d: %+v, %v; want %v remaining", id, l, err, want)
		}
	}
	restart := func(remaining map[int64]time.Duration) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if remaining != nil {
			if err := b.SetRemaining(t.Context(), backend.Import{}, remaining); err != nil {
				t.Fatal(err)
			}
		}
		clock.pass(time.Hour)
		s = openStore(t, b, Config{Now: clock.now})
	}
	restart(map[int64]time.Duration{1: 4 * time.Second})
	left(1, 4*time.Second)
	left(2, 10*time.Second)
	restart(nil)
	left(1, 10*time.Second)
	restart(map[int64]time.Duration{1: 4 * time.Second, 2: time.Second})
	expired(t, s, clock, "b", time.Second)
	expired(t, s, clock, "a", 3*time.Second)
}

// The renewal of an expired lease returns after the store has revoked the lease: its key is gone by then.
func TestRenewalOfAnEndedLeaseWaitsForItsEnd(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		clock := &fakeClock{}
		cfg.Now = clock.now
		s := openStore(t, openSQLite(t), cfg)
		for id := int64(1); id <= 10; id++ {
			grant(t, s, id, 10, fmt.Sprint(id))
			clock.pass(10 * time.Second)
			_, err := s.LeaseRenew(within(t), id)
			if row := get(t, s, fmt.Sprint(id), 0); !errors.Is(err, ErrLeaseNotFound) || row != nil {
				t.Errorf("renewing lease %d returned %v, its key is %v", id, err, row)
			}
		}
	})
}

// The store does not report a lease as gone while it cannot revoke it, and revokes it once commits succeed again.
func TestRenewalOfALeaseThatCannotBeRevoked(t *testing.T) {
	clock := &fakeClock{}
	gate := newBlocked()
	var fail atomic.Bool
	fail.Store(true)
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(e *backend.Effects, through func() error) error {
		if len(e.Revoked) == 0 {
			return through()
		}
		gate.first()
		if fail.Load() {
			return fmt.Errorf("not now: %w", backend.ErrUnavailable)
		}
		return through()
	}
	s := openStore(t, f, Config{Now: clock.now})
	grant(t, s, 1, 10, "a")
	clock.pass(10 * time.Second)
	<-gate.entered
	renewed := make(chan error, 1)
	go func() {
		_, err := s.LeaseRenew(within(t), 1)
		renewed <- err
	}()
	select {
	case err := <-renewed:
		t.Errorf("renewing a lease during the commit of its revocation returned %v", err)
		renewed <- err
	case <-time.After(20 * time.Millisecond):
	}
	close(gate.release)
	if err := <-renewed; !errors.Is(err, ErrUnavailable) {
		t.Errorf("renewing a lease that the store cannot revoke returned %v", err)
	}
	if get(t, s, "a", 0) == nil {
		t.Fatal("its key is gone")
	}
	fail.Store(false)
	expired(t, s, clock, "a", expiryRetry)
}

// After a standstill of the process, waiting renewals come before the expiry of a lease, whichever of the two notices
// the standstill first.
func TestLeaseOutlivesAStandstill(t *testing.T) {
	clock := &fakeClock{}
	s := openStore(t, openSQLite(t), Config{Now: clock.now})
	l := s.lessor.(*lessor)
	l.mu.Lock()
	l.awake = clock.now
	l.lastRead = clock.now()
	l.mu.Unlock()
	grant(t, s, 1, 3, "a")
	for range 20 {
		clock.pass(5 * time.Second)
		if ttl, err := s.LeaseRenew(within(t), 1); err != nil || ttl != 3 {
			t.Fatalf("after a standstill a renewal returned %d, %v", ttl, err)
		}
	}
	// Time in which the process runs counts.
	for range 3 {
		clock.pass(time.Second)
		if _, _, err := s.LeaseTimeToLive(within(t), 1, false); err != nil && !errors.Is(err, ErrLeaseNotFound) {
			t.Fatal(err)
		}
	}
	if _, err := s.LeaseRenew(within(t), 1); !errors.Is(err, ErrLeaseNotFound) {
		t.Errorf("a renewal after the TTL returned %v", err)
	}
}

// When a renewal races with expiry, a client whose renewal succeeds keeps its key, and only a client that loses both
// the lease and the key gets an error.
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
		wg.Go(func() { s.lessor.(*lessor).due <- struct{}{} })
		wg.Wait()
		row := get(t, s, key, 0)
		l, _, err := s.LeaseTimeToLive(within(t), id, false)
		if renewed == nil && err == nil && l.Remaining > 0 && row == nil {
			t.Errorf("lease %d exists without its key", id)
		}
		if renewed != nil && row != nil {
			t.Errorf("renewing lease %d returned %v, but its key exists", id, renewed)
		}
	}
}

// However many leases the store cannot revoke, and however often it tries, it logs the problem once, and once that it
// is over.
func TestLeasesThatCannotBeRevokedAreLoggedOnce(t *testing.T) {
	const leases, rounds = 20, 3
	clock := &fakeClock{}
	var full atomic.Bool
	full.Store(true)
	tried := make(chan int, leases*rounds*2)
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(e *backend.Effects, through func() error) error {
		if len(e.Revoked) > 0 && full.Load() {
			tried <- len(e.Revoked)
			return fmt.Errorf("commit: %w", backend.ErrNoSpace)
		}
		return through()
	}
	log := make(recorder, 10)
	s := openStore(t, f, Config{Now: clock.now, Logger: slog.New(log)})
	for id := int64(1); id <= leases; id++ {
		grant(t, s, id, 10, fmt.Sprint(id))
	}
	clock.pass(10 * time.Second)
	ctx := within(t)
	for range rounds {
		for n := 0; n < leases; {
			select {
			case m := <-tried:
				n += m
			case <-ctx.Done():
				t.Fatal("the store does not retry leases that it failed to revoke")
			}
		}
		clock.pass(expiryRetry)
	}
	full.Store(false)
	for _, want := range []slog.Level{slog.LevelWarn, slog.LevelInfo} {
		select {
		case r := <-log:
			if r.Level != want {
				t.Errorf("logged %s %q, want level %s", r.Level, r.Message, want)
			}
		case <-ctx.Done():
			t.Fatalf("no log record at level %s", want)
		}
	}
	if len(log) != 0 {
		t.Errorf("extra log record: %q", (<-log).Message)
	}
}

func TestLeaseBounds(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	if _, err := s.LeaseGrant(within(t), 0, maxTTL+1); !errors.Is(err, ErrLeaseTTL) {
		t.Errorf("a TTL over the limit returned %v", err)
	}
	for _, ttl := range []int64{-1, 0, 1, 2} {
		if l, err := s.LeaseGrant(within(t), 0, ttl); err != nil || l.Granted != 2*time.Second || l.ID <= 0 {
			t.Errorf("a TTL of %d s returned %+v, %v", ttl, l, err)
		}
	}
	if l, err := s.LeaseGrant(within(t), -5, maxTTL); err != nil || l.Granted != maxTTL*time.Second {
		t.Errorf("the longest TTL returned %+v, %v", l, err)
	}
	if _, err := s.LeaseGrant(within(t), -5, 10); !errors.Is(err, ErrLeaseExists) {
		t.Errorf("a second grant returned %v", err)
	}
}
