package simdb

import (
	"context"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Cluster is the database: a primary server and, perhaps, others. Its methods return at once.
type Cluster struct {
	id      uint64
	network Network

	mu      sync.Mutex
	servers []*server
	members int // clients so far
	cut     map[link]bool
	written uint64        // commits so far
	pins    int64         // the last id of one
	change  chan struct{} // closed with every change that somebody may wait for
}

// link is the network between a client and a server.
type link struct{ client, server int }

// New returns a cluster of n servers: server 0 is the primary, and server 1, if any, its standby. A nil network is
// perfect.
func New(n int, network Network) *Cluster {
	if network == nil {
		network = func(Request) Fate { return Fate{} }
	}
	c := &Cluster{id: 0x51, network: network, cut: map[link]bool{}, change: make(chan struct{})}
	first := newState(time.Now())
	for i := range n {
		s := &server{cluster: c, number: i, timeline: 1, head: first, visible: first}
		c.servers = append(c.servers, s)
		s.start()
	}
	c.servers[0].primary = true
	return c
}

// changed wakes all who wait. Callers hold mu.
func (c *Cluster) changed() {
	close(c.change)
	c.change = make(chan struct{})
}

// await waits until f, which is called with mu held, is true. Errors: ctx's, errBroken if the run ends; nil for no run.
func (c *Cluster) await(ctx context.Context, r *run, f func() bool) error {
	var ended chan struct{}
	if r != nil {
		ended = r.ended
	}
	for {
		c.mu.Lock()
		select {
		case <-ended:
			c.mu.Unlock()
			return errBroken
		default:
		}
		if f() {
			c.mu.Unlock()
			return nil
		}
		change := c.change
		c.mu.Unlock()
		select {
		case <-change:
		case <-ended:
			return errBroken
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// do runs f with mu held and wakes all who wait.
func (c *Cluster) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.changed()
}

// Replicate makes server to the standby of server from, with its contents, and restarts it if it was a primary. Commits
// wait for it if sync is set; otherwise it receives them after lag.
func (c *Cluster) Replicate(from, to int, sync bool, lag time.Duration) {
	c.do(func() {
		s, b := c.servers[from], c.servers[to]
		if b.primary || b.run == nil {
			b.stop()
			b.start()
		}
		s.standby, s.linked, s.sync, s.lag = b, true, sync, lag
		b.head, b.visible, b.position, b.timeline, b.primary = s.head, s.head, s.position, s.timeline, false
		s.visible, s.shipped = s.head, s.position
	})
}

// Link connects a primary with its standby, or cuts it off.
func (c *Cluster) Link(primary int, linked bool) {
	c.do(func() {
		s := c.servers[primary]
		if s.linked = linked; linked && s.standby != nil && !s.standby.primary {
			s.ship()
		}
	})
}

// Freeze stops a server's process, or lets it continue.
func (c *Cluster) Freeze(n int, frozen bool) {
	c.do(func() {
		s := c.servers[n]
		if s.frozen = frozen && s.run != nil; s.frozen {
			return
		}
		c.catchUp(s)
	})
}

// catchUp sends a standby what it has missed. Callers hold mu.
func (c *Cluster) catchUp(s *server) {
	for _, p := range c.servers {
		if p.standby == s && p.linked && p.run != nil {
			p.ship()
		}
	}
}

// Stop ends a server's process, as a crash does. Start starts it again, as the primary or standby that it was.
func (c *Cluster) Stop(n int) { c.do(func() { c.servers[n].stop() }) }

// Start starts a server that was stopped.
func (c *Cluster) Start(n int) {
	c.do(func() {
		if s := c.servers[n]; s.run == nil {
			s.start()
			c.catchUp(s)
		}
	})
}

// Promote makes a standby a primary, and returns the revision that it begins with. Nothing tells the old primary, which
// lives on if nobody stops it. Commits of the new one wait for no standby until Replicate gives it one.
func (c *Cluster) Promote(n int) (revision int64) {
	c.do(func() {
		s := c.servers[n]
		s.primary, s.sync, s.standby = true, false, nil
		for _, o := range c.servers {
			s.timeline = max(s.timeline, o.timeline)
		}
		s.timeline++
		if s.run != nil {
			s.run.identity.Timeline = s.timeline
		}
		for _, o := range c.servers {
			if o.standby == s {
				o.linked = false
			}
		}
		revision = s.visible.clock.Revision
	})
	return revision
}

// Full makes the disk of a server full, or not.
func (c *Cluster) Full(n int, full bool) { c.do(func() { c.servers[n].full = full }) }

// Step steps the clock of a server.
func (c *Cluster) Step(n int, by time.Duration) { c.do(func() { c.servers[n].offset += by }) }

// Cut cuts a client off from a server, or connects them.
func (c *Cluster) Cut(client, server int, cut bool) {
	c.do(func() { c.cut[link{client, server}] = cut })
}

// Backup is the contents of a server at some time.
type Backup struct{ state *state }

// Back returns the current contents of a server, as others see them.
func (c *Cluster) Back(n int) Backup {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Backup{c.servers[n].visible}
}

// Restore starts a server that was stopped with the contents of a backup, in place: on the same timeline. It returns
// the revision that the server begins with.
func (c *Cluster) Restore(n int, b Backup) (revision int64) {
	c.do(func() {
		s := c.servers[n]
		s.start()
		s.append(b.state)
		s.visible = b.state
	})
	return b.state.clock.Revision
}

// History returns the newest commit of a server and, through it, all commits before. Clock returns its clock.
func (c *Cluster) History(n int) (*Commit, backend.Clock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[n].visible.last, c.servers[n].visible.clock
}

// Leases returns how many leases a server has.
func (c *Cluster) Leases(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[n].visible.leases.Len()
}
