package world

import (
	"math/rand/v2"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// gremlin applies faults, one after the other.
type gremlin struct {
	*rand.Rand
	w       *World
	backups []simdb.Backup // what has been saved, oldest first
	stormed bool           // storms cost as much time as all the rest, so there is at most one
}

// disturb applies faults for the time of the plan.
func (w *World) disturb() {
	g := &gremlin{Rand: source(w.seed, "faults"), w: w}
	w.gremlin = g
	time.Sleep(5 * time.Second) // the first seconds are fair
	for end := time.Now().Add(w.plan.faults); time.Now().Before(end); {
		g.backups = append(g.backups, w.cluster.Back(w.primary))
		if !g.stormed && g.IntN(4) == 0 {
			g.storm()
		}
		c := climates[g.IntN(len(climates))]
		w.count("network: " + c.name)
		w.weather.set(c)
		g.pause(3*time.Second, 8*time.Second)
		if g.IntN(2) == 0 {
			w.weather.set(fair)
		}
		g.strike()
		w.weather.set(fair)
		g.pause(time.Second, 8*time.Second)
		for _, r := range w.replicas {
			r.within()
		}
	}
}

func (g *gremlin) pause(least, most time.Duration) {
	time.Sleep(least + upTo(g.Rand, most-least))
}

// fault is something that happens to a server or a replica, and its end.
type fault struct {
	name string
	do   func(g *gremlin)
}

func (g *gremlin) strike() {
	faults := []fault{
		{"server crashes", (*gremlin).crash},
		{"server frozen", (*gremlin).freeze},
		{"server frozen before a request", (*gremlin).stall},
		{"tables locked by a migration", (*gremlin).migrate},
		{"replica cut off", (*gremlin).cut},
		{"disk full", (*gremlin).full},
		{"clock steps", (*gremlin).step},
		{"replica restarts", (*gremlin).restart},
	}
	switch g.w.plan.kind {
	case Synchronous:
		faults = append(faults, fault{"standby gone", (*gremlin).standbyGone},
			fault{"failover, old primary stopped", (*gremlin).failover},
			fault{"failover, old primary lives on", (*gremlin).replaced},
			fault{"failover, old primary lives on", (*gremlin).replaced},
			fault{"failover, old primary frozen", (*gremlin).replacedFrozen})
	case Asynchronous:
		faults = append(faults, fault{"failover that loses commits", (*gremlin).lose},
			fault{"failover that loses commits", (*gremlin).lose},
			fault{"backup restored in place", (*gremlin).rewind},
			fault{"backup restored in place", (*gremlin).rewind})
	}
	f := faults[g.IntN(len(faults))]
	g.w.log.Info("fault", "name", f.name)
	g.w.count(f.name)
	f.do(g)
	g.w.log.Info("fault is over", "name", f.name)
}

func (g *gremlin) crash() {
	g.w.cluster.Stop(g.w.primary)
	g.pause(0, 8*time.Second)
	g.w.cluster.Start(g.w.primary)
}

// standStill freezes the primary for a while.
func (g *gremlin) standStill(least, most time.Duration) {
	s := stall{begins: g.w.journal.Now()}
	g.w.cluster.Freeze(g.w.primary, true)
	g.pause(least, most)
	g.w.cluster.Freeze(g.w.primary, false)
	s.ends = g.w.journal.Now()
	g.w.stalls = append(g.w.stalls, s)
}

func (g *gremlin) freeze() {
	g.standStill(0, 15*time.Second)
}

// awaited are the requests at which stall freezes the server. Leases end while it stands still, so the look for those
// that have ended is there twice.
var awaited = []string{
	"expired leases", "expired leases", "heartbeat", "renew", "begin", "commit", "head", "tail", "confirm", "purge",
}

// stall freezes the server just before a request arrives, again and again. Everything that was sent arrives at once
// when it continues, but what takes many round trips ends last.
func (g *gremlin) stall() {
	for range 3 {
		g.w.weather.set(fair)
		g.pause(2*time.Second, 6*time.Second)
		g.w.weather.await(awaited[g.IntN(len(awaited))])
		g.w.weather.set(slowHearts)
		g.standStill(2*time.Second, 6*time.Second)
		g.pause(time.Second, 3*time.Second)
	}
}

// migrate locks all tables for a moment, as a migration does.
func (g *gremlin) migrate() {
	g.standStill(50*time.Millisecond, 3*time.Second)
}

// any returns a replica.
func (g *gremlin) any() *replica { return g.w.replicas[g.IntN(len(g.w.replicas))] }

func (g *gremlin) cut() {
	n := g.any().number()
	g.w.cluster.Cut(n, g.w.primary, true)
	g.pause(0, 15*time.Second)
	g.w.cluster.Cut(n, g.w.primary, false)
}

func (g *gremlin) full() {
	g.w.cluster.Full(g.w.primary, true)
	g.pause(time.Second, 10*time.Second)
	g.w.cluster.Full(g.w.primary, false)
}

func (g *gremlin) step() { g.w.cluster.Step(g.w.primary, jump(g.Rand)) }

func (g *gremlin) restart() {
	r := g.any()
	r.close()
	g.pause(0, 4*time.Second)
	r.start()
}

func (g *gremlin) standbyGone() {
	g.w.cluster.Stop(g.w.standby)
	g.pause(0, 12*time.Second)
	g.w.cluster.Start(g.w.standby)
}

// failover promotes the synchronous standby, and makes the old primary the new standby later.
func (g *gremlin) failover() {
	old, next := g.w.primary, g.w.standby
	g.w.cluster.Stop(old)
	g.pause(0, 5*time.Second)
	g.promote(old, next)
}

func (g *gremlin) promote(old, next int) {
	g.w.cluster.Promote(next)
	g.w.primary = next
	g.pause(0, 10*time.Second)
	g.w.attach(next, old)
}

// replaced promotes the standby while the old primary lives on, still reached by some replicas and cut off from the
// others.
func (g *gremlin) replaced() {
	old, next := g.w.primary, g.w.standby
	stay := g.IntN(len(g.w.replicas)) // still reaches the old primary, and nothing else
	for i, r := range g.w.replicas {
		cut := old
		if i == stay {
			cut = next
		}
		n := r.number()
		g.w.cluster.Cut(n, cut, true)
		defer g.w.cluster.Cut(n, cut, false)
	}
	g.w.cluster.Link(old, false)
	g.pause(0, 3*time.Second)
	g.w.cluster.Promote(next)
	g.w.primary = next
	g.pause(time.Second, 20*time.Second)
	g.w.attach(next, old)
}

// replacedFrozen promotes the standby while the old primary stands still, and then lets it continue.
func (g *gremlin) replacedFrozen() {
	old, next := g.w.primary, g.w.standby
	g.w.cluster.Freeze(old, true)
	g.pause(0, 5*time.Second)
	g.w.cluster.Promote(next)
	g.w.primary = next
	g.pause(0, 10*time.Second)
	g.w.cluster.Freeze(old, false)
	g.pause(0, 5*time.Second)
	g.w.attach(next, old)
}

// lose promotes a standby that lacks commits.
func (g *gremlin) lose() { g.w.loses(g.Rand) }

// loses promotes a standby that lacks commits, after it has stopped the primary.
func (w *World) loses(r *rand.Rand) {
	old, next := w.primary, w.standby
	w.cluster.Stop(old)
	time.Sleep(upTo(r, 3*time.Second))
	w.endEra()
	w.forked = w.cluster.Promote(next)
	w.primary = next
	time.Sleep(upTo(r, 10*time.Second))
	w.attach(next, old)
}

// rewind restores a backup, old enough that even the epoch may be lower.
func (g *gremlin) rewind() {
	b := g.backups[g.IntN(len(g.backups))]
	g.w.cluster.Stop(g.w.primary)
	g.w.endEra()
	g.w.forked = g.w.cluster.Restore(g.w.primary, b)
}
