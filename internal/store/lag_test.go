package store

import (
	"errors"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/test/support/pgserver"
)

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
