package world

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/simdb"
	"github.com/sqlstore/sqlstore/test/support/history"
)

// World is one run.
type World struct {
	seed     uint64
	plan     plan
	log      *slog.Logger
	cluster  *simdb.Cluster
	weather  *weather
	replicas []*replica
	journal  *history.Journal
	trace    *trace
	began    time.Time

	primary   int // the number of the primary server
	standby   int // of its standby, -1 for none
	gremlin   *gremlin
	stalls    []stall
	early     []early
	watchers  []*watcher
	eras      []era
	committed map[int64]time.Duration // when each revision of the last history was committed
	forked    int64                   // the revision that the current era began with
	lasted    time.Duration

	recovering atomic.Bool // faults have ended: slow clients hurry
	mu         sync.Mutex
	faults     map[string]int
	problems   []string
	refusals   map[string]error // the values of writes that were not applied, by the engine's word
}

// era is a time in which no history was lost.
type era struct {
	begins, ends time.Duration
	fork         int64 // the revision that the era began with
	events       []history.Event
}

// New prepares the run of a seed. Call Run in a bubble of synctest, and then Result outside.
func New(seed uint64, log *slog.Logger) *World {
	return &World{
		seed: seed, plan: newPlan(seed), log: log, faults: map[string]int{}, refusals: map[string]error{}, standby: -1,
	}
}

// mostProblems is how many violations are worth reporting.
const mostProblems = 20

// problem records a violation.
func (w *World) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) > mostProblems {
		return
	}
	w.problems = append(w.problems, fmt.Sprintf("after %v: ", time.Since(w.began))+fmt.Sprintf(format, args...))
}

// count counts a fault.
func (w *World) count(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[fault]++
}

func (w *World) denied(value string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals[value] = err
}

// settle bounds how long everything may take to recover after the last fault.
const settle = 90 * time.Second

// Run runs the world until everything has stopped. It must be called in a bubble.
func (w *World) Run() {
	w.began = time.Now()
	w.trace = &trace{began: w.began}
	w.weather = &weather{seed: w.seed, now: fair, trace: w.trace, count: w.count, fired: make(chan struct{}, 1)}
	w.journal = history.NewJournal()
	w.open()
	watching, stopWatches := context.WithCancel(context.Background())
	var watches sync.WaitGroup
	for _, v := range w.watchers {
		watches.Go(func() { v.run(watching) })
	}
	load, stopLoad := context.WithCancel(context.Background())
	clients := w.clients(load)
	w.disturb()
	stopLoad()
	clients.Wait()
	w.lastFault()
	w.recover()
	stopWatches()
	watches.Wait()
	w.close()
	w.lasted = time.Since(w.began)
	synctest.Wait()
}

// open starts the database and the replicas.
func (w *World) open() {
	servers := 2
	if w.plan.kind == Alone {
		servers = 1
	}
	w.cluster = simdb.New(servers, w.weather.fate)
	r := source(w.seed, "clocks")
	for i := range servers {
		w.cluster.Step(i, jump(r)) // the servers' clocks differ
	}
	if servers > 1 {
		w.attach(0, 1)
	}
	for i := range w.plan.replicas {
		rep := &replica{w: w, name: name(i)}
		w.replicas = append(w.replicas, rep)
		rep.start()
		for j, prefix := range []string{"", "k/", "l/"} {
			stays := -1
			if w.plan.kind == Asynchronous || j == 0 {
				stays = i
			}
			w.watchers = append(w.watchers, &watcher{
				Rand: source(w.seed, fmt.Sprint("watcher ", i, j)), w: w, prefix: prefix, slow: j == 1, stays: stays,
			})
		}
	}
}

// jump returns how far a clock is off, or jumps: 0 or some seconds. The store does not promise anything for jumps of
// less than two seconds, by which leases are shorter.
func jump(r *rand.Rand) time.Duration { return time.Duration(r.IntN(7)-3) * 4 * time.Second }

// attach makes a server the standby of the primary.
func (w *World) attach(primary, standby int) {
	w.primary, w.standby = primary, standby
	lag := w.plan.lag
	if w.plan.kind == Synchronous {
		lag = 0
	}
	w.cluster.Replicate(primary, standby, w.plan.kind == Synchronous, lag)
}

// leaseClients is how many clients of each replica have leases.
const leaseClients = 3

// clients starts the model clients.
func (w *World) clients(ctx context.Context) *sync.WaitGroup {
	var wg sync.WaitGroup
	n := 0
	for _, r := range w.replicas {
		for range w.plan.clients {
			n++
			c := &client{source(w.seed, fmt.Sprint("client ", n)), w, n, r}
			wg.Go(func() { c.serve(ctx) })
		}
		for range leaseClients {
			n++
			c := &client{source(w.seed, fmt.Sprint("client ", n)), w, n, r}
			wg.Go(func() { c.lease(ctx) })
		}
	}
	return &wg
}

// close stops everything.
func (w *World) close() {
	var wg sync.WaitGroup
	for _, r := range w.replicas {
		wg.Go(r.close)
	}
	wg.Wait()
	w.endEra()
	for i := range 2 {
		if i == 0 || w.plan.kind != Alone {
			w.cluster.Stop(i)
		}
	}
}

// endEra records the history up to now, which is about to be lost, or is complete.
func (w *World) endEra() {
	e := era{ends: w.journal.Now(), fork: w.forked, events: w.history()}
	if n := len(w.eras); n > 0 {
		e.begins = w.eras[n-1].ends
	}
	w.eras = append(w.eras, e)
}

// history returns all events of the primary's history.
func (w *World) history() (events []history.Event) {
	w.committed = map[int64]time.Duration{}
	last, _ := w.cluster.History(w.primary)
	var commits []*simdb.Commit
	for c := last; c != nil; c = c.Before {
		commits = append(commits, c)
	}
	for i := len(commits) - 1; i >= 0; i-- {
		for j := range commits[i].Rows {
			w.committed[commits[i].Rows[j].ModRevision] = commits[i].At.Sub(w.began)
			events = append(events, eventOf(&commits[i].Rows[j]))
		}
	}
	return events
}
