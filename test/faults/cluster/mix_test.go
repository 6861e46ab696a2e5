package cluster

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/faults/cluster/rig"
)

// defaultDuration is short, for everyday runs of the tests.
const defaultDuration = 30 * time.Second

// TestMix makes components fail in random order, some at the same time.
func TestMix(t *testing.T) {
	duration := env.Length.Minutes(t, defaultDuration)
	seed := env.Seed.Uint(t, uint64(rand.Uint32()))
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := rig.NewDatabases(t)
	end := time.Now().Add(duration)
	for round := 1; round == 1 || time.Now().Before(end); round++ {
		s := set(t, d)
		// A round's history is checked as a whole, which limits its length: the check takes time and memory.
		for until := time.Now().Add(time.Minute); time.Now().Before(until) && time.Now().Before(end); {
			s.anything(random)
		}
		s.heal(func() error { return nil })
		s.finish("random mix, round " + strconv.Itoa(round))
		if t.Failed() {
			t.Fatalf("round %d, seed %d", round, seed)
		}
	}
}

// anything makes one or two components fail and recover.
func (s *stage) anything(random *rand.Rand) {
	s.Helper()
	span := func() time.Duration { return time.Duration(200+random.IntN(3000)) * time.Millisecond }
	order := random.Perm(replicas)
	one, other := s.Replicas[order[0]], s.Replicas[order[1]]
	faults := []struct {
		name   string
		inject func()
	}{
		{"kill " + one.Name, func() { s.restart(one, "KILL") }},
		{"kill all replicas", func() {
			for _, r := range s.Replicas {
				_, err := r.End("KILL")
				s.ok(err)
			}
			for _, r := range s.Replicas {
				s.ok(r.Start())
			}
			s.ready()
		}},
		{"cut off " + one.Name + ", kill " + other.Name, func() {
			s.ok(one.CutOff())
			s.restart(other, "KILL")
			s.sustain(span())
			s.ok(one.Rejoin())
		}},
		{"freeze " + one.Name + " and " + other.Name, func() {
			s.ok(one.Signal("STOP"))
			s.ok(other.Signal("STOP"))
			s.sustain(span())
			s.ok(one.Signal("CONT"))
			s.sustain(span() / 4)
			s.ok(other.Signal("CONT"))
		}},
		{"pause Postgres, terminate " + one.Name, func() {
			s.ok(s.Primary.Pause())
			s.sustain(span())
			s.ok(s.Primary.Unpause())
			s.restart(one, "TERM")
		}},
		{"restart Postgres, cut off " + one.Name, func() {
			s.ok(one.CutOff())
			_, err := s.Primary.End("INT")
			s.ok(err)
			s.ok(s.Primary.Start())
			s.sustain(span())
			s.ok(one.Rejoin())
		}},
		{"crash Postgres", func() {
			_, err := s.Primary.End("KILL")
			s.ok(err)
			s.ok(s.Primary.Start())
		}},
		{"cut off Postgres", func() {
			s.ok(s.Primary.CutOff())
			s.sustain(span())
			s.ok(s.Primary.Rejoin())
		}},
		{"pause the standby", func() { s.pause(s.Standby.Host, span()) }},
	}
	f := faults[random.IntN(len(faults))]
	s.Logf("%v: %s", s.Journal.Now().Round(time.Millisecond), f.name)
	f.inject()
	s.flows()
}
