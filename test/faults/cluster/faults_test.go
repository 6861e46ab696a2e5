package cluster

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sqlstore/sqlstore/test/faults/cluster/rig"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

// holderBound is how long the others may have to wait for a replica that does not release the clock.
const holderBound = 6 * time.Second

// TestFaults makes one component fail at a time, and keeps the primary.
func TestFaults(t0 *testing.T) {
	var d *rig.Databases // shared, because each test has its own database; after a failure their state is unknown
	for _, f := range []struct {
		name  string
		fault func(s *stage)
		// holder is the replica that blocks the clock for the others, for a limited time.
		holder string
	}{
		{"replica is killed", func(s *stage) { s.restart(s.Replicas[0], "KILL") }, ""},
		{"replica is terminated", func(s *stage) { s.restart(s.Replicas[1], "TERM") }, ""},
		{"replicas are rolled", func(s *stage) {
			for _, r := range s.Replicas {
				s.restart(r, "TERM")
				s.flows(r.Name)
			}
		}, ""},
		{"Postgres is paused for 3 s", func(s *stage) { s.pause(s.Primary.Host, 3*time.Second) }, ""},
		{"Postgres is paused for 12 s", func(s *stage) {
			s.ok(s.Primary.Pause())
			s.sustain(11 * time.Second)
			for _, r := range s.Replicas {
				s.ok(r.WaitReady(503))
			}
			s.heal(s.Primary.Unpause)
			s.ready()
		}, ""},
		{"standby is paused for 8 s", func(s *stage) { s.pause(s.Standby.Host, 8*time.Second) }, ""},
		{"Postgres is restarted", func(s *stage) {
			_, err := s.Primary.End("INT") // a fast shutdown
			s.ok(err)
			s.heal(s.Primary.Start)
		}, ""},
		{"Postgres crashes", func(s *stage) {
			_, err := s.Primary.End("KILL")
			s.ok(err)
			s.heal(s.Primary.Start)
		}, ""},
		{"replica is cut off for 8 s", func(s *stage) {
			r := s.Replicas[0]
			s.ok(r.CutOff())
			s.sustain(8 * time.Second)
			s.without(0)
			s.ok(r.WaitReady(503))
			s.ok(s.Replicas[1].Ready())
			s.heal(r.Rejoin)
			s.ready()
		}, ""},
		{"replica is cut off while it holds the clock", func(s *stage) {
			r := s.Replicas[2]
			s.freeze(r)
			s.ok(r.CutOff())
			s.ok(r.Signal("CONT"))
			s.sustain(8 * time.Second)
			s.heal(r.Rejoin)
		}, "r3"},
		{"replica is frozen while it holds the clock", func(s *stage) {
			r := s.Replicas[1]
			s.freeze(r)
			s.sustain(9 * time.Second)
			s.heal(func() error { return r.Signal("CONT") })
		}, "r2"},
	} {
		t0.Run(f.name, func(t *testing.T) {
			if d == nil {
				d = rig.NewDatabases(t0)
			}
			t.Cleanup(func() {
				if t.Failed() {
					d = nil
				}
			})
			s := set(t, d)
			f.fault(s)
			for _, o := range s.finish(f.name) {
				if f.holder == "" && o.Errors[codes.DeadlineExceeded.String()] > 0 {
					t.Errorf("clients of %q timed out though a replica could answer: %v",
						o.Replica, o.Errors)
				}
				// Clients of all replicas wait for the holder, too.
				if f.holder != "" && o.Replica != "" && o.Replica != f.holder && o.Writes > holderBound {
					t.Errorf("clients of %s got no write acknowledged for %v while %s held the clock, want %v at most",
						o.Replica, o.Writes, f.holder, holderBound)
				}
			}
		})
	}
}

// without checks that a replica without its database ends the streams that require a leader, and no others.
func (s *stage) without(replica int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	s.ok(s.Watches[replicas+replica].WaitEnded(ctx))
	if w := s.Watches[replica]; w.Ended() > 0 {
		s.Errorf("the watch of %s ended though it does not require a leader", w.Name)
	}
	for _, w := range s.Watches[replicas : 2*replicas] {
		if w != s.Watches[replicas+replica] && w.Ended() > 0 {
			s.Errorf("the watch of %s ended though its replica had its database", w.Name)
		}
	}
}

// restart stops a replica with a signal and starts it again.
func (s *stage) restart(r *rig.Replica, signal string) {
	s.Helper()
	status, err := r.End(signal)
	s.ok(err)
	if signal == "TERM" && status != 0 {
		s.Errorf("%s exited with status %d after SIGTERM", r.Name, status)
	}
	s.heal(r.Start)
	s.ok(r.Ready())
}

// pause freezes a host with all its processes for a while.
func (s *stage) pause(h *hosts.Host, d time.Duration) {
	s.Helper()
	s.ok(h.Pause())
	s.sustain(d)
	s.heal(h.Unpause)
}

// ready waits until all replicas are ready.
func (s *stage) ready() {
	s.Helper()
	for _, r := range s.Replicas {
		s.ok(r.Ready())
	}
}

// freeze stops a replica while it holds the clock row. Failed attempts before that do not count as part of the fault.
func (s *stage) freeze(r *rig.Replica) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), recoveryTimeout)
	defer cancel()
	attempts, err := s.FreezeHolder(ctx, r)
	s.ok(err)
	s.began = s.Journal.Now()
	s.Logf("%s was stopped while it held the clock, at attempt %d", r.Name, attempts)
}
