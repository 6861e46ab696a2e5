package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// blocked holds the sequencer in a commit, so that later operations wait and form one batch.
type blocked struct {
	entered, release chan struct{}
	once             sync.Once
}

func newBlocked() *blocked {
	return &blocked{entered: make(chan struct{}), release: make(chan struct{})}
}

// first blocks its first caller until release is closed.
func (b *blocked) first() {
	b.once.Do(func() {
		close(b.entered)
		<-b.release
	})
}

// waiting waits until at least n operations are in the queue.
func waiting(t *testing.T, s *Store, n int) {
	t.Helper()
	ctx := within(t)
	for {
		have := s.seq.queue.waiting()
		if have >= n {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%d operations wait, want %d", have, n)
		}
		runtime.Gosched()
	}
}

// batch queues one put per key, in order, while gate blocks the sequencer, and returns their results.
func batch(t *testing.T, s *Store, gate *blocked, keys []string) ([]*PutResult, []error) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "first", "") })
	<-gate.entered
	results, errs := make([]*PutResult, len(keys)), make([]error, len(keys))
	for i, k := range keys {
		wg.Go(func() {
			results[i], errs[i] = s.Put(within(t), &PutRequest{Key: []byte(k), Value: []byte(k)})
		})
		waiting(t, s, i+1)
	}
	close(gate.release)
	wg.Wait()
	return results, errs
}

func TestRejectedBatchIsSplit(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		gate := newBlocked()
		f := &faults{Backend: openSQLite(t)}
		f.commit = func(e *backend.Effects, through func() error) error {
			gate.first()
			for _, r := range e.Rows {
				if string(r.Key) == "bad" {
					return fmt.Errorf("refused: %w", backend.ErrRejected)
				}
			}
			return through()
		}
		s := openStore(t, f, cfg)
		st := s.NewWatchStream()
		defer st.Close()
		st.Watch(WatchRequest{Key: []byte{0}, End: []byte{0}})
		next(t, st)
		results, errs := batch(t, s, gate, []string{"a", "b", "bad", "c", "d"})
		last := int64(2)
		for i, key := range []string{"a", "b", "bad", "c", "d"} {
			if key == "bad" {
				if !errors.Is(errs[i], backend.ErrRejected) {
					t.Errorf("the rejected put returned %v", errs[i])
				}
				continue
			}
			if last++; errs[i] != nil || results[i].Revision != last {
				t.Errorf("%s returned %+v, %v; want revision %d", key, results[i], errs[i], last)
			}
		}
		if r := get(t, s, "bad", 0); r != nil {
			t.Errorf("the rejected put wrote %+v", r)
		}
		for rev := int64(2); rev <= last; {
			for _, e := range next(t, st).Events {
				if e.Row.ModRevision != rev {
					t.Errorf("the watch shows revision %d after %d", e.Row.ModRevision, rev-1)
				}
				rev++
			}
		}
	})
}

func TestUnknownOutcomeStopsWriting(t *testing.T) {
	for _, happened := range []bool{true, false} {
		t.Run(fmt.Sprint(happened), func(t *testing.T) {
			var commits atomic.Int32
			b := openSQLite(t)
			f := &faults{Backend: b}
			f.commit = func(_ *backend.Effects, through func() error) error {
				if commits.Add(1) < 2 {
					return through()
				}
				if happened {
					if err := through(); err != nil {
						return err
					}
				}
				return fmt.Errorf("the disk went away: %w", backend.ErrUnknownOutcome)
			}
			s := openStore(t, f, Config{})
			put(t, s, "a", "1")
			_, err := s.Put(within(t), &PutRequest{Key: []byte("a"), Value: []byte("2")})
			if !errors.Is(err, backend.ErrUnknownOutcome) {
				t.Fatalf("got %v", err)
			}
			<-s.Done()
			if !errors.Is(s.Err(), backend.ErrUnknownOutcome) {
				t.Errorf("the store stopped with %v", s.Err())
			}
			_, err = s.Put(within(t), &PutRequest{Key: []byte("a"), Value: []byte("3")})
			if !errors.Is(err, ErrUnavailable) || errors.Is(err, backend.ErrUnknownOutcome) {
				t.Errorf("the next write returned %v", err)
			}
			if n := commits.Load(); n != 2 {
				t.Errorf("the engine tried %d commits", n)
			}
			if r := get(t, s, "a", 0); r == nil || string(r.Value) != "1" {
				t.Errorf("a read shows a commit of unknown outcome: %+v", r)
			}
			want := "1"
			if happened {
				want = "2"
			}
			f.commit = nil
			if r := get(t, openStore(t, b, Config{}), "a", 0); r == nil || string(r.Value) != want {
				t.Errorf("a restart finds %+v", r)
			}
		})
	}
}

func TestUnavailableDatabaseLosesNothing(t *testing.T) {
	var down atomic.Bool
	refuse := func() error {
		if down.Load() {
			return fmt.Errorf("no answer: %w", backend.ErrUnavailable)
		}
		return nil
	}
	f := &faults{Backend: openSQLite(t)}
	f.beforeBegin = func(context.Context) error { return refuse() }
	f.beforeRows = func(context.Context, []backend.RowID) error { return refuse() }
	s := openStore(t, f, Config{})
	put(t, s, "a", "1")
	down.Store(true)
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a"), Value: []byte("2")}); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if s.Err() != nil {
		t.Fatal("a short outage of the database stopped the store")
	}
	down.Store(false)
	if rev := put(t, s, "a", "3"); rev != 3 {
		t.Errorf("the next write got revision %d", rev)
	}
}

// The engine retries a batch that loses a conflict, but only a limited number of times.
func TestBatchAfterConflicts(t *testing.T) {
	conflicts := 0
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(_ *backend.Effects, commit func() error) error {
		if conflicts > 0 {
			conflicts--
			return fmt.Errorf("%w: %w", backend.ErrConflict, backend.ErrUnavailable)
		}
		return commit()
	}
	s := openStore(t, f, Config{})
	conflicts = conflictTries - 1
	if rev := put(t, s, "a", "1"); rev != 2 || conflicts != 0 {
		t.Errorf("revision %d, %d conflicts left", rev, conflicts)
	}
	conflicts = conflictTries + 1
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a")}); !errors.Is(err, ErrUnavailable) || conflicts != 1 {
		t.Errorf("got %v, %d conflicts left", err, conflicts)
	}
	conflicts = 0
	if rev := put(t, s, "a", "2"); rev != 3 {
		t.Errorf("revision %d after a batch that ran out of retries", rev)
	}
}

// The engine does not retry a batch that may have committed, even if its error also reports a conflict.
func TestConflictOfUnknownOutcome(t *testing.T) {
	tries := 0
	f := &faults{Backend: openSQLite(t)}
	f.beforeBegin = func(context.Context) error {
		tries++
		return nil
	}
	f.commit = func(_ *backend.Effects, commit func() error) error {
		if err := commit(); err != nil {
			return err
		}
		return fmt.Errorf("%w: %w", backend.ErrConflict, backend.ErrUnknownOutcome)
	}
	s := openStore(t, f, Config{})
	_, err := s.Put(within(t), &PutRequest{Key: []byte("a")})
	if !errors.Is(err, backend.ErrUnknownOutcome) || tries != 1 {
		t.Errorf("got %v after %d tries", err, tries)
	}
	<-s.Done()
}

// A batch that fails to get the clock waits for it again as long as a caller waits for the batch, and no longer.
func TestBatchThatWaitedInVain(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	begins := 0
	waited := func() {}
	f.beforeBegin = func(context.Context) error {
		if begins++; begins%conflictTries != 0 {
			waited()
			return fmt.Errorf("%w: %w", backend.ErrClockHeld, backend.ErrUnavailable)
		}
		return nil
	}
	s := openStore(t, f, Config{})
	if rev := put(t, s, "a", "1"); rev != 2 || begins != conflictTries {
		t.Errorf("revision %d, %d waits for the clock", rev, begins)
	}
	begins = 0
	ctx, leave := context.WithCancel(t.Context())
	waited = leave
	if _, err := s.Put(ctx, &PutRequest{Key: []byte("a")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil || begins != 1 {
		t.Errorf("%v; %d waits for the clock on behalf of an abandoned call", err, begins)
	}
}

func TestErrorsWithoutANameAreUnknownOutcomes(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(*backend.Effects, func() error) error { return errors.New("what is this?") }
	s := openStore(t, f, Config{})
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a")}); !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
	<-s.Done()
}

func TestAbandonedCallsAreNotTried(t *testing.T) {
	gate := newBlocked()
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(_ *backend.Effects, through func() error) error {
		gate.first()
		return through()
	}
	s := openStore(t, f, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "first", "") })
	<-gate.entered
	wg.Go(func() {
		if _, err := s.Put(ctx, &PutRequest{Key: []byte("left")}); !errors.Is(err, context.Canceled) {
			t.Errorf("an abandoned call returned %v", err)
		}
	})
	waiting(t, s, 1)
	cancel()
	close(gate.release)
	wg.Wait()
	if rev := put(t, s, "a", ""); rev != 3 {
		t.Errorf("revision %d after one write", rev)
	}
	if r := get(t, s, "left", 0); r != nil {
		t.Errorf("the abandoned call wrote %+v", r)
	}
}

func TestQueueIsBounded(t *testing.T) {
	gate := newBlocked()
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(_ *backend.Effects, through func() error) error {
		gate.first()
		return through()
	}
	s := openStore(t, f, Config{QueueRequests: 3})
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "first", "") })
	<-gate.entered
	for i := range 3 {
		wg.Go(func() { put(t, s, fmt.Sprint(i), "") })
		waiting(t, s, i+1)
	}
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a")}); !errors.Is(err, ErrTooManyRequests) {
		t.Errorf("a put over the limit returned %v", err)
	}
	close(gate.release)
	wg.Wait()
	put(t, s, "a", "")
}

func TestCloseAnswersWhatWaits(t *testing.T) {
	gate := newBlocked()
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(_ *backend.Effects, through func() error) error {
		gate.first()
		return through()
	}
	s := openStore(t, f, Config{})
	st := s.NewWatchStream()
	st.Watch(WatchRequest{Key: []byte("a")})
	next(t, st)
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "first", "") })
	<-gate.entered
	wg.Go(func() { put(t, s, "a", "") })
	waiting(t, s, 1)
	wg.Go(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	close(gate.release)
	wg.Wait()
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("b")}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close a write returned %v", err)
	}
	if _, err := st.Next(within(t)); !errors.Is(err, ErrWatchClosed) {
		t.Errorf("after Close a watch returned %v", err)
	}
	if _, err := s.NewWatchStream().Next(within(t)); !errors.Is(err, ErrWatchClosed) {
		t.Errorf("after Close a new stream returned %v", err)
	}
}

// A lease that one batch revokes and grants again exists afterwards.
func TestLeaseIsGrantedAgainInOneBatch(t *testing.T) {
	gate := newBlocked()
	f := &faults{Backend: openSQLite(t)}
	s := openStore(t, f, Config{})
	if _, err := s.LeaseGrant(within(t), 7, 60); err != nil {
		t.Fatal(err)
	}
	f.commit = func(_ *backend.Effects, through func() error) error {
		gate.first()
		return through()
	}
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "first", "") })
	<-gate.entered
	wg.Go(func() {
		if _, err := s.LeaseRevoke(within(t), 7); err != nil {
			t.Error(err)
		}
	})
	waiting(t, s, 1)
	wg.Go(func() {
		if _, err := s.LeaseGrant(within(t), 7, 90); err != nil {
			t.Error(err)
		}
	})
	waiting(t, s, 2)
	close(gate.release)
	wg.Wait()
	l, _, err := s.LeaseTimeToLive(within(t), 7, false)
	if err != nil || l.Granted.Seconds() != 90 {
		t.Errorf("the lease is %+v, %v", l, err)
	}
	stored, err := f.Leases(within(t))
	if err != nil || len(stored) != 1 || stored[0].TTL.Seconds() != 90 {
		t.Errorf("the database has %+v, %v", stored, err)
	}
}

// A read of the current revision finds the new value when another request overwrites, compacts and removes the row
// while the read looks for its value.
func TestCurrentRevisionIsNeverCompacted(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	var s *Store
	var once sync.Once
	f.beforeRows = func(context.Context, []backend.RowID) error {
		once.Do(func() {
			rev := put(t, s, "a", "new")
			if _, err := s.Compact(within(t), rev, true); err != nil {
				t.Error(err)
			}
		})
		return nil
	}
	s = openStore(t, f, Config{CacheBytes: 1})
	put(t, s, "a", "old")
	if r := get(t, s, "a", 0); r == nil || string(r.Value) != "new" {
		t.Errorf("got %+v", r)
	}
}

// A transaction that fails after its first operations leaves no changes to the later ones in the same batch.
func TestAbortedTransactionHasNoEffect(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		gate := newBlocked()
		f := &faults{Backend: openSQLite(t)}
		f.commit = func(_ *backend.Effects, through func() error) error {
			gate.first()
			return through()
		}
		s := openStore(t, f, cfg)
		st := s.NewWatchStream()
		defer st.Close()
		st.Watch(WatchRequest{Key: []byte("a"), PrevKV: true})
		next(t, st)
		var wg sync.WaitGroup
		wg.Go(func() { put(t, s, "first", "") })
		<-gate.entered
		wg.Go(func() { put(t, s, "a", "1") })
		waiting(t, s, 1)
		wg.Go(func() {
			_, err := s.Txn(within(t), &Txn{Success: []Op{
				{Put: &PutRequest{Key: []byte("b")}},
				{Delete: &DeleteRequest{Key: []byte("a"), End: []byte{0}}},
				{Put: &PutRequest{Key: []byte("a"), IgnoreValue: true}},
			}})
			if !errors.Is(err, ErrKeyNotFound) {
				t.Errorf("got %v", err)
			}
		})
		waiting(t, s, 2)
		wg.Go(func() {
			res, err := s.Put(within(t), &PutRequest{Key: []byte("a"), Value: []byte("2"), PrevKV: true})
			if err != nil || res.Revision != 4 || res.Prev == nil || string(res.Prev.Value) != "1" {
				t.Errorf("got %+v, %v", res, err)
			}
		})
		waiting(t, s, 3)
		close(gate.release)
		wg.Wait()
		if r := get(t, s, "a", 0); r == nil || string(r.Value) != "2" || r.Version != 2 {
			t.Errorf("got %+v", r)
		}
		if r := get(t, s, "b", 0); r != nil {
			t.Errorf("the failed transaction wrote %+v", r)
		}
		var events []Event
		for len(events) < 2 {
			events = append(events, next(t, st).Events...)
		}
		if len(events) != 2 || events[0].Prev != nil || events[1].Prev == nil || string(events[1].Prev.Value) != "1" {
			t.Errorf("the watch shows %v", events)
		}
	})
}

// The engine stops writing when the database's clock has advanced although the database reported a failed commit.
func TestClockThatMovedOnStopsWriting(t *testing.T) {
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(_ *backend.Effects, through func() error) error {
		if err := through(); err != nil {
			return err
		}
		return fmt.Errorf("it did not happen: %w", backend.ErrUnavailable)
	}
	s := openStore(t, f, Config{})
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a")}); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	f.commit = nil
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a")}); !errors.Is(err, backend.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
	<-s.Done()
}

// Every operation of a batch returns the revision that is current right after it, not the batch's last one.
func TestRevisionsOfOneBatch(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		gate := newBlocked()
		f := &faults{Backend: openSQLite(t)}
		f.commit = func(e *backend.Effects, through func() error) error {
			if len(e.Rows) == 1 && string(e.Rows[0].Key) == "first" {
				gate.first()
			}
			return through()
		}
		s := openStore(t, f, cfg)
		grant(t, s, 7, 60, "a", "b")
		start := s.Revision() + 1
		ctx := within(t)
		write := func(key string, compare ...Compare) func() (int64, error) {
			return func() (int64, error) {
				res, err := s.Txn(ctx, &Txn{Compare: compare, Success: []Op{{Put: &PutRequest{Key: []byte(key)}}}})
				if err != nil {
					return 0, err
				}
				return res.Revision, nil
			}
		}
		steps := []struct {
			name string
			rev  int64 // relative to start
			do   func() (int64, error)
		}{
			{"put", 1, write("c")},
			{"grant", 1, func() (int64, error) {
				l, err := s.LeaseGrant(ctx, 8, 60)
				if err != nil {
					return 0, err
				}
				return l.Revision, nil
			}},
			{"put", 2, write("d")},
			{"failed txn", 2, write("e", Compare{Key: []byte("d"), Target: CompareVersion, Number: 9})},
			{"revoke", 3, func() (int64, error) { return s.LeaseRevoke(ctx, 7) }},
			{"put", 4, write("e")},
			{"revoke without keys", 4, func() (int64, error) { return s.LeaseRevoke(ctx, 8) }},
			{"compact", 4, func() (int64, error) { return s.compact(ctx, 1) }},
			{"put", 5, write("f")},
		}
		var wg sync.WaitGroup
		wg.Go(func() { put(t, s, "first", "") })
		<-gate.entered
		for i, step := range steps {
			wg.Go(func() {
				if rev, err := step.do(); err != nil || rev != start+step.rev {
					t.Errorf("%s returned %d, %v; want %d", step.name, rev, err, start+step.rev)
				}
			})
			waiting(t, s, i+1)
		}
		close(gate.release)
		wg.Wait()
	})
}
