package store

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

// A client that takes nothing is behind, and not any more once it has taken all.
func TestLagOfAClientThatStandsStill(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	st := s.NewWatchStream()
	defer st.Close()
	st.Watch(WatchRequest{Key: []byte{0}, End: []byte{0}})
	next(t, st)
	if l := s.Lag(0); l != (Lag{}) {
		t.Errorf("nothing is written: %+v", l)
	}
	put(t, s, "a", "")
	if l := s.Lag(0); l.Watches != 0 { // it may have come this moment
		t.Errorf("the first look: %+v", l)
	}
	put(t, s, "b", "")
	if l := s.Lag(0); l.Watches != 1 || l.Longest <= 0 || l.Revisions != 0 {
		t.Errorf("the second look: %+v, want one watch", l)
	}
	if l := s.Lag(time.Hour); l.Watches != 0 || l.Longest <= 0 {
		t.Errorf("none is an hour behind: %+v", l)
	}
	next(t, st)
	put(t, s, "c", "")
	if l := s.Lag(0); l.Watches != 0 { // it moves
		t.Errorf("it has taken something: %+v", l)
	}
	next(t, st)
	if l := s.Lag(0); l != (Lag{}) {
		t.Errorf("it has taken all: %+v", l)
	}
}

// A watch that catches up is behind until it has got there, or has ended.
func TestLagOfAWatchThatCatchesUp(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Store, *WatchStream){
		"it gets there": func(t *testing.T, s *Store, st *WatchStream) {
			t.Helper()
			for rev := int64(0); rev < s.Revision(); {
				if r := next(t, st); len(r.Events) > 0 {
					rev = r.Events[len(r.Events)-1].Row.ModRevision
				}
			}
		},
		"it is canceled": func(_ *testing.T, _ *Store, st *WatchStream) { st.Cancel(0) },
		"it is closed":   func(_ *testing.T, _ *Store, st *WatchStream) { st.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, openSQLite(t), Config{WindowBytes: 1, WatcherBytes: 1000})
			for i := range 100 {
				put(t, s, strconv.Itoa(i), "a value of some length")
			}
			st := s.NewWatchStream()
			defer st.Close()
			st.Watch(WatchRequest{Key: []byte{0}, End: []byte{0}, StartRevision: 2})
			if r := next(t, st); !r.Created {
				t.Fatalf("%+v", r)
			}
			eventually(t, "history is read", func() bool { return s.WatchStats().Pending > 0 })
			if l := s.Lag(0); l.Watches != 1 || l.Revisions != 100 || l.Longest <= 0 { // what is read is not taken
				t.Errorf("%+v, want one watch that is 100 revisions behind", l)
			}
			if n := s.WatchStats().Lag; n != 100 {
				t.Errorf("%d revisions behind", n)
			}
			end(t, s, st)
			eventually(t, "nothing is behind", func() bool { return s.Lag(0) == Lag{} })
		})
	}
}

// What others commit cannot be learned while something locks the clock, though heartbeats go on.
func TestLagBehindOtherReplicas(t *testing.T) {
	dsn := pgserver.Database(t)
	s := replicasOn(t, 2, Config{}, dsn)[1]
	eventually(t, "in step", func() bool { return s.Lag(0).Tail < time.Second })
	unlock := pgserver.LockTable(t, dsn, "clock")
	eventually(t, "behind", func() bool { return s.Lag(0).Tail > 2*time.Second })
	unlock()
	eventually(t, "in step again", func() bool { return s.Lag(0).Tail < time.Second })
}

func TestWritingIsTold(t *testing.T) {
	gate, full := newBlocked(), false
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(_ *backend.Effects, through func() error) error {
		if full {
			return backend.ErrNoSpace
		}
		gate.first()
		return through()
	}
	s := openStore(t, f, Config{})
	if w := s.Writing(); w != (Writing{}) {
		t.Errorf("nothing is written: %+v", w)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(within(t), &PutRequest{Key: []byte("k")})
		done <- err
	}()
	<-gate.entered
	if w := s.Writing(); w.Commit <= 0 || w.Fault != nil {
		t.Errorf("a commit is under way: %+v", w)
	}
	close(gate.release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	full = true
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("k")}); !errors.Is(err, backend.ErrNoSpace) {
		t.Fatal(err)
	}
	if w := s.Writing(); w.Fault == nil || !w.Fault.NoSpace() || w.Fault.At.IsZero() || w.Commit != 0 {
		t.Errorf("the disk was full: %+v", w)
	}
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("k"), IgnoreLease: true, Lease: 77}); err == nil {
		t.Fatal("a put with a lease that is not there was taken")
	}
	full = false
	put(t, s, "k", "")
	if w := s.Writing(); w != (Writing{}) {
		t.Errorf("writing goes on: %+v", w)
	}
}
