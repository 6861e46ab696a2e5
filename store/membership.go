package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// beatLeader and beatOther are how often a replica says that it lives; the one with the maintenance lease looks after each
	// beat for leases that have ended.
	beatLeader = 500 * time.Millisecond
	beatOther  = time.Second
	// beatPatience is how long a silent replica is taken for alive.
	beatPatience = 5 * time.Second
	// beatSilence is how long no replica may have been heard of before leases count as those that nobody could renew.
	beatSilence = 2 * time.Second
	// leaveTimeout bounds how long a stop waits for the database to hear of it.
	leaveTimeout = time.Second
	// contactPatience is how long the database may not answer before this replica is of no use to its clients.
	contactPatience = 5 * time.Second
	contactPeriod   = 250 * time.Millisecond
)

// memberships is what the last heartbeat learned.
type memberships struct {
	mu      sync.RWMutex
	members []backend.Member
	leader  uint64
}

// contact knows when the database last took a write of this replica: a heartbeat or a batch.
type contact struct {
	mu   sync.Mutex
	last time.Time
	gone chan struct{} // closed while the database is out of reach
	lost bool
}

func (c *contact) made(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	if c.lost || c.gone == nil {
		c.lost, c.gone = false, make(chan struct{})
	}
}

// look notices that the database is out of reach, and returns whether it has just become so.
func (c *contact) look(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost || now.Sub(c.last) < contactPatience {
		return false
	}
	c.lost = true
	close(c.gone)
	return true
}

func (c *contact) channel() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// beat says once that this replica lives.
func (f *follower) beat(ctx context.Context) error {
	s := f.s
	self := backend.Member{ID: s.settings.MemberID, Name: s.cfg.Name, ClientURLs: s.cfg.ClientURLs}
	f.beating.Lock()
	defer f.beating.Unlock()
	began := time.Now()
	m, err := f.b.Heartbeat(ctx, self, beatPatience, beatSilence)
	if err != nil {
		return err
	}
	f.contact.made(time.Now())
	f.beaten = began
	f.members.mu.Lock()
	was := f.members.leader
	f.members.members, f.members.leader = m.Members, m.Leader
	f.members.mu.Unlock()
	if m.Leader == self.ID && was != self.ID {
		s.cfg.Logger.Info("this replica does the maintenance from now on: leases that end, compaction")
	}
	return nil
}

// beatSince makes sure that there was a heartbeat after a moment.
func (f *follower) beatSince(ctx context.Context, moment time.Time) error {
	f.beating.Lock()
	done := f.beaten.After(moment)
	f.beating.Unlock()
	if done {
		return nil
	}
	return f.beat(ctx)
}

// beats keeps saying that this replica lives, and looks for leases that have ended when that is its part.
func (f *follower) beats() {
	ctx := f.s.ctx
	failing := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			f.leave()
			return
		case <-timer.C:
		}
		began := time.Now()
		err := f.beat(ctx)
		if err == nil && f.leads() && time.Since(began) < beatSilence {
			f.lessor.look(ctx)
		}
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			if failed {
				f.s.cfg.Logger.Warn("the database does not answer this replica's heartbeat", "error", err)
			} else {
				f.s.cfg.Logger.Info("the database answers again")
			}
		}
		every := beatOther
		if f.leads() {
			every = beatLeader
		}
		timer.Reset(every)
	}
}

func (f *follower) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := f.b.Leave(ctx, f.s.settings.MemberID); err != nil {
		f.s.cfg.Logger.Info("the other replicas will miss this one only when its time is up", "error", err)
	}
}

// watchContact notices that the database is out of reach though every question may hang.
func (f *follower) watchContact() {
	tick := time.NewTicker(contactPeriod)
	defer tick.Stop()
	for {
		select {
		case <-f.s.ctx.Done():
			return
		case now := <-tick.C:
			if f.contact.look(now) {
				f.s.cfg.Logger.Error("the database is out of reach: streams that asked for a leader end, so that clients go to other replicas",
					"for", contactPatience)
			}
		}
	}
}

func (f *follower) leads() bool {
	f.members.mu.RLock()
	defer f.members.mu.RUnlock()
	return f.members.leader == f.s.settings.MemberID && !f.contact.isLost()
}

func (c *contact) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// alone says that no other replica was heard of. One that comes finds what it is not told of by asking, until it is.
func (f *follower) alone() bool {
	f.members.mu.RLock()
	defer f.members.mu.RUnlock()
	return len(f.members.members) == 1
}

// Members returns the replicas that live, by id, as this one last heard; nil when no others can be.
func (s *Store) Members() []backend.Member {
	if s.follower == nil {
		return nil
	}
	m := &s.follower.members
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.members)
}

// Leader returns the id of the replica that has the maintenance lease: the same on all replicas, 0 while nobody has it.
func (s *Store) Leader() uint64 {
	if s.follower == nil {
		return s.settings.MemberID
	}
	m := &s.follower.members
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.leader
}

// Leads says whether this process does the maintenance: compaction and the like. Of several replicas one does.
func (s *Store) Leads() bool { return s.follower == nil || s.follower.leads() }

// NoLeader returns a channel that is closed when the database has been out of reach for five seconds. After it has been closed, ask
// again: there is another one as soon as the database answers. It is nil, which blocks for ever, when the database cannot get out
// of reach.
func (s *Store) NoLeader() <-chan struct{} {
	if s.follower == nil {
		return nil
	}
	return s.follower.contact.channel()
}

// Incarnation is raised when history was lost; etcd's raft term. What is read after it is of no older history.
func (s *Store) Incarnation() int64 {
	if s.follower == nil {
		return s.clock.Incarnation
	}
	return s.follower.incarnation.Load()
}
