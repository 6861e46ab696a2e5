package store

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// A replica cannot learn what others commit while something locks the clock, though heartbeats continue.
func TestLagBehindOtherReplicas(t *testing.T) {
	t.Parallel()
	dsn := pgserver.Database(t)
	s := replicasOn(t, 2, Config{}, dsn)[1]
	eventually(t, "the replica catches up", func() bool { return s.Lag(0).Tail < time.Second })
	unlock := pgserver.LockTable(t, dsn, "clock")
	eventually(t, "the replica lags", func() bool { return s.Lag(0).Tail > 2*time.Second })
	unlock()
	eventually(t, "the replica catches up again", func() bool { return s.Lag(0).Tail < time.Second })
}

func TestWritingIsReported(t *testing.T) {
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
		t.Errorf("before any write: %+v", w)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(within(t), &PutRequest{Key: []byte("k")})
		done <- err
	}()
	<-gate.entered
	if w := s.Writing(); w.Commit <= 0 || w.Fault != nil {
		t.Errorf("during a commit: %+v", w)
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
		t.Errorf("after a write to a full disk: %+v", w)
	}
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("k"), IgnoreLease: true, Lease: 77}); err == nil {
		t.Fatal("a put with a missing lease succeeded")
	}
	full = false
	put(t, s, "k", "")
	if w := s.Writing(); w != (Writing{}) {
		t.Errorf("after a successful write: %+v", w)
	}
}

// A series of batches that fail ends with one that is committed, with the end of an outage, and with a pause.
func TestSeriesOfFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Store
		since := func() time.Duration {
			s.noteFault(backend.ErrUnavailable)
			return s.Writing().Fault.Lasted()
		}
		for _, c := range []struct {
			name string
			do   func()
			want time.Duration
		}{
			{"first", func() {}, 0},
			{"second", func() { time.Sleep(7 * time.Second) }, 7 * time.Second},
			{"after a commit", func() { s.noteFault(nil) }, 0},
			{"after a pause", func() { time.Sleep(faultPause) }, 0},
			{"after an outage", func() { time.Sleep(7 * time.Second); s.endFaults(); time.Sleep(7 * time.Second) }, 0},
			{"a second later", func() { time.Sleep(time.Second) }, time.Second},
		} {
			c.do()
			if got := since(); got != c.want {
				t.Errorf("%s: the batches have failed for %v, want %v", c.name, got, c.want)
			}
		}
	})
}
