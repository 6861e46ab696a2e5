package world

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is a kind of database.
type Kind int

// The kinds of databases.
const (
	// Alone is one server, which crashes and comes back with all commits.
	Alone Kind = iota
	// Synchronous has a standby that every commit waits for. It replaces the primary, which may live on and not know.
	Synchronous
	// Asynchronous has a standby that lags behind. When it replaces the primary, which is stopped first, commits are
	// lost. Backups are restored in place.
	Asynchronous
)

func (k Kind) String() string { return [...]string{"alone", "synchronous", "asynchronous"}[k] }

// plan is what a seed decides at the start of a run.
type plan struct {
	kind      Kind
	replicas  int
	clients   int           // of each replica
	staleness time.Duration // the read bound: Config.MaxStaleness
	faults    time.Duration // how long there are faults
	lag       time.Duration // of an asynchronous standby
	remote    bool          // clients use the etcd API
}

func newPlan(seed uint64) plan {
	r := source(seed, "plan")
	return plan{
		kind: Kind(seed % 3), replicas: 2 + r.IntN(2), clients: 2 + r.IntN(2),
		staleness: []time.Duration{2 * time.Second, 2 * time.Second, 500 * time.Millisecond, -1}[r.IntN(4)],
		faults:    time.Duration(60+r.IntN(60)) * time.Second,
		lag:       time.Duration(200+r.IntN(2500)) * time.Millisecond,
		remote:    r.IntN(3) == 0,
	}
}

func (p plan) String() string {
	s := fmt.Sprintf("%v, %d replicas, read bound %v, %v of faults", p.kind, p.replicas, p.bound(), p.faults)
	if p.remote {
		s += ", over gRPC"
	}
	return s
}

// bound is how old linearizable reads may be.
func (p plan) bound() time.Duration { return max(0, p.staleness) }

// source returns random numbers that depend on the seed and the name only.
func source(seed uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(seed, mix(seed, name, 0)))
}

// mix hashes its arguments.
func mix(seed uint64, name string, n uint64) uint64 {
	h := seed ^ 0x9e3779b97f4a7c15
	for i := range len(name) {
		h = scramble(h ^ uint64(name[i]))
	}
	return scramble(h ^ n)
}

// scramble is the finalizer of splitmix64.
func scramble(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
