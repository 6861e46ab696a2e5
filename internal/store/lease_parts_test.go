package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// grantWithKeys grants a lease with n keys, the first ten of which move to it from another lease.
func grantWithKeys(t *testing.T, s *Store, id, ttl int64, n int) {
	t.Helper()
	grant(t, s, id+1, 10_000)
	grant(t, s, id, ttl)
	for i := range n {
		for _, lease := range []int64{id + 1, id}[min(1, i/10):] {
			if _, err := s.Put(within(t), &PutRequest{Key: fmt.Append(nil, "k", i), Lease: lease}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// remaining counts the keys that grantWithKeys attached, at a revision.
func remaining(t *testing.T, s *Store, revision int64) int64 {
	t.Helper()
	res, err := s.Range(within(t),
		&RangeRequest{Key: []byte("k"), End: []byte("l"), CountOnly: true, Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	return res.Count
}

// Another client revokes the rest of a lease, and the lease is granted again, between two parts. It is another lease.
func TestLeaseIsGrantedBetweenTheParts(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		cfg.TxnRows = 10
		between := make(chan func())
		f := &faults{Backend: openSQLite(t)}
		f.commit = func(e *backend.Effects, through func() error) error {
			err := through()
			if len(e.Ending) > 0 {
				(<-between)()
			}
			return err
		}
		s := openStore(t, f, cfg)
		if !cfg.DisableIndex {
			eventually(t, "the index is loaded", s.index.Complete)
		}
		grantWithKeys(t, s, 1, 100, 15)
		done := make(chan error, 4)
		go func() {
			_, err := s.LeaseRevoke(within(t), 1)
			done <- err
		}()
		between <- func() {
			// The sequencer evaluates these after the first part.
			for i, do := range []func() error{
				func() error { _, err := s.LeaseRevoke(within(t), 1); return err },
				func() error { _, err := s.LeaseGrant(within(t), 1, 100); return err },
				func() error { _, err := s.Put(within(t), &PutRequest{Key: []byte("new"), Lease: 1}); return err },
			} {
				go func() { done <- do() }()
				waiting(t, s, i+1)
			}
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := remaining(t, s, 0); n != 0 {
			t.Errorf("%d keys of the old lease are left", n)
		}
		if _, keys, err := s.LeaseTimeToLive(within(t), 1, true); err != nil || len(keys) != 1 {
			t.Errorf("the new lease has keys %q, %v", keys, err)
		}
	})
}

// The store revokes a lease in parts if it has more keys than a transaction may change, and no request restores the
// lease between the parts.
func TestLeaseIsRevokedInParts(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		cfg.TxnRows = 10
		var parts atomic.Int32
		between := make(chan func())
		f := &faults{Backend: openSQLite(t)}
		f.commit = func(e *backend.Effects, through func() error) error {
			err := through()
			if len(e.Ending) > 0 {
				parts.Add(1)
				(<-between)()
			}
			return err
		}
		s := openStore(t, f, cfg)
		if !cfg.DisableIndex {
			eventually(t, "the index is loaded", s.index.Complete)
		}
		grantWithKeys(t, s, 1, 100, 25)
		if _, keys, err := s.LeaseTimeToLive(within(t), 1, true); cfg.DisableIndex != errors.Is(err, ErrTxnTooLarge) ||
			len(keys) != 25 && err == nil {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		start := s.Revision()
		type answer struct {
			rev int64
			err error
		}
		revoked := make(chan answer, 1)
		go func() {
			rev, err := s.LeaseRevoke(within(t), 1)
			revoked <- answer{rev, err}
		}()
		late := make(chan error, 2)
		between <- func() {
			// The sequencer evaluates these after the first part.
			go func() {
				_, err := s.Put(within(t), &PutRequest{Key: []byte("late"), Lease: 1})
				late <- err
			}()
			waiting(t, s, 1)
			go func() {
				_, err := s.LeaseGrant(within(t), 1, 100)
				if errors.Is(err, ErrLeaseExists) {
					err = ErrLeaseNotFound
				}
				late <- err
			}()
			waiting(t, s, 2)
		}
		if a := <-revoked; a.err != nil || a.rev != start+3 {
			t.Errorf("revoked at %d, %v; want %d", a.rev, a.err, start+3)
		}
		for range 2 {
			if err := <-late; !errors.Is(err, ErrLeaseNotFound) {
				t.Errorf("between the parts: %v", err)
			}
		}
		for i, want := range []int64{25, 15, 5, 0} {
			if n := remaining(t, s, start+int64(i)); n != want {
				t.Errorf("%d keys after part %d, want %d", n, i, want)
			}
		}
		if _, _, err := s.LeaseTimeToLive(within(t), 1, false); !errors.Is(err, ErrLeaseNotFound) {
			t.Errorf("the lease after its revocation: %v", err)
		}
		if _, keys, err := s.LeaseTimeToLive(within(t), 2, true); err != nil || len(keys) != 0 {
			t.Errorf("the lease that had ten of the keys first: %q, %v", keys, err)
		}
		grant(t, s, 1, 10, "again")
	})
}

// The store completes a revocation in parts, even after a restart.
func TestRevocationInPartsIsFinished(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			clock := &fakeClock{}
			var fail atomic.Bool
			f := &faults{Backend: openSQLite(t)}
			f.commit = func(e *backend.Effects, through func() error) error {
				if fail.Load() {
					return fmt.Errorf("not now: %w", backend.ErrUnavailable)
				}
				err := through()
				fail.Store(len(e.Ending) > 0)
				return err
			}
			cfg := Config{TxnRows: 10, Now: clock.now}
			s := openStore(t, f, cfg)
			grantWithKeys(t, s, 1, 100, 25)
			if _, err := s.LeaseRevoke(within(t), 1); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("the revocation returned %v", err)
			}
			if l, _, err := s.LeaseTimeToLive(within(t), 1, false); err != nil || l.Granted != 100*time.Second ||
				l.Remaining != 0 {
				t.Errorf("the partly revoked lease: %+v, %v", l, err)
			}
			if _, err := s.LeaseRenew(within(t), 1); !errors.Is(err, ErrUnavailable) {
				t.Errorf("renewing the partly revoked lease returned %v", err)
			}
			if restart {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openStore(t, f, cfg)
			}
			st := s.NewWatchStream()
			defer st.Close()
			st.Watch(WatchRequest{Key: []byte("k"), End: []byte("l")})
			next(t, st)
			fail.Store(false)
			clock.pass(expiryRetry)
			for left := 15; left > 0; {
				left -= len(next(t, st).Events)
			}
			if _, err := s.LeaseRenew(within(t), 1); !errors.Is(err, ErrLeaseNotFound) {
				t.Errorf("the renewal returned %v", err)
			}
		})
	}
}

// A lease expires however many keys it has.
func TestLeaseWithManyKeysExpires(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		clock := &fakeClock{}
		cfg.Now, cfg.TxnRows = clock.now, 10
		s := openStore(t, openSQLite(t), cfg)
		grantWithKeys(t, s, 1, 10, 31)
		clock.pass(10 * time.Second)
		if _, err := s.LeaseRenew(within(t), 1); !errors.Is(err, ErrLeaseNotFound) {
			t.Errorf("the renewal returned %v", err)
		}
		if n := remaining(t, s, 0); n != 0 {
			t.Errorf("%d keys are left", n)
		}
		if got := s.LeaseStats().Expired; got != 1 {
			t.Errorf("%d leases count as expired", got)
		}
	})
}

// Any replica completes a revocation that another replica began.
func TestSharedLeaseIsRevokedInParts(t *testing.T) {
	all := openReplicas(t, 2, Config{TxnRows: 10})
	grantWithKeys(t, all[0], 1, 10_000, 25)
	var op revokeOperation
	op.id = 1
	if _, err := all[0].seq.do(within(t), &op); err != nil || !op.more {
		t.Fatalf("the first part: more is %t, %v", op.more, err)
	}
	if _, err := all[1].Put(within(t), &PutRequest{Key: []byte("late"), Lease: 1}); !errors.Is(err, ErrLeaseNotFound) {
		t.Errorf("put with a lease that is being revoked: %v", err)
	}
	// The replica that renews may not be the one that looks for expired leases.
	if _, err := all[1].LeaseRenew(within(t), 1); !errors.Is(err, ErrLeaseNotFound) {
		t.Errorf("the renewal returned %v", err)
	}
	if n := remaining(t, all[1], 0); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	grantWithKeys(t, all[0], 3, 10_000, 25)
	if rev, err := all[1].LeaseRevoke(within(t), 3); err != nil || remaining(t, all[0], rev) != 0 ||
		remaining(t, all[0], rev-1) != 5 {
		t.Errorf("revoked at %d: %v", rev, err)
	}
}

// A revocation that reads only some of a lease's keys leaves the rest to the next part, even when the batch has deleted
// some of those it read: no key outlives its lease.
func TestLeaseInPartsBesideDeletions(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		cfg.TxnRows = 10
		gate := newBlocked()
		f := &faults{Backend: openSQLite(t)}
		f.commit = func(e *backend.Effects, through func() error) error {
			if len(e.Rows) == 1 && string(e.Rows[0].Key) == "first" {
				gate.first()
			}
			return through()
		}
		s := openStore(t, f, cfg)
		grantWithKeys(t, s, 1, 100, 25)
		var wg sync.WaitGroup
		wg.Go(func() { put(t, s, "first", "") })
		<-gate.entered
		for i := range 14 {
			wg.Go(func() {
				if _, err := s.Delete(within(t), &DeleteRequest{Key: fmt.Append(nil, "k", i)}); err != nil {
					t.Error(err)
				}
			})
			waiting(t, s, i+1)
		}
		wg.Go(func() {
			if _, err := s.LeaseRevoke(within(t), 1); err != nil {
				t.Error(err)
			}
		})
		waiting(t, s, 15)
		close(gate.release)
		wg.Wait()
		if n := remaining(t, s, 0); n != 0 {
			t.Errorf("%d keys outlive their lease", n)
		}
	})
}

// A request for the keys of lease 0 fails, whether or not the index is complete.
func TestKeysOfNoLease(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		s := openStore(t, openSQLite(t), cfg)
		if _, _, err := s.LeaseTimeToLive(within(t), 0, true); !errors.Is(err, ErrLeaseNotFound) {
			t.Errorf("got %v", err)
		}
	})
}
