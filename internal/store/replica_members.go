package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// beatLeader and beatOther are how often a replica says that it lives; the one with the maintenance lease looks
	// after each beat for leases that have ended.
	beatLeader = 500 * time.Millisecond
	beatOther  = time.Second
	// beatShortest is how often they say so at most; reads that can rely on none then make commits of their own.
	beatShortest = 100 * time.Millisecond
	// beatTimeout is how long a silent replica is taken for alive.
	beatTimeout = 5 * time.Second
	// beatSilence is how long no replica may have been heard of before leases count as those that nobody could renew.
	beatSilence = 2 * time.Second
	// leaveTimeout bounds how long a stop waits for the database to hear of it.
	leaveTimeout = time.Second
	// contactTimeout is how long the database may not answer before this replica is of no use to its clients.
	contactTimeout = 5 * time.Second
	contactPeriod  = 250 * time.Millisecond
)

// memberships is what heartbeats learned, and how the last one went.
type memberships struct {
	mu      sync.RWMutex
	members []backend.Member
	leader  uint64
	// extending says that leases get their time again, see [backend.Shared.ExtendLeases].
	extending bool
	began     time.Time
	heard     time.Time // when the last one began that succeeded
	err       error
	later     chan struct{} // closed when there was another one
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
	if c.lost || now.Sub(c.last) < contactTimeout {
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

// self is what this replica says of itself.
func (r *replica) self() backend.Member {
	return backend.Member{ID: r.s.settings.MemberID, Name: r.s.cfg.Name, ClientURLs: r.s.cfg.ClientURLs}
}

// beat says once that this replica lives. One at a time: before beats, or in it.
func (r *replica) beat(ctx context.Context) error {
	s := r.s
	self := r.self()
	began := time.Now()
	m, err := r.b.Heartbeat(ctx, self, beatTimeout, beatSilence)
	if err == nil {
		r.contact.made(time.Now())
	}
	if led := r.members.learn(m, began, err); err == nil && m.Leader == self.ID && led != self.ID {
		s.cfg.Logger.Info("this replica does the maintenance from now on: leases that end, compaction")
	}
	return err
}

// learn takes what a heartbeat brought, and returns who led before.
func (m *memberships) learn(got backend.Membership, began time.Time, err error) (led uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	led = m.leader
	if err == nil {
		m.members, m.leader, m.extending, m.heard = got.Members, got.Leader, got.Extending, began
	}
	m.began, m.err = began, err
	close(m.later)
	m.later = make(chan struct{})
	return led
}

// extends says whether the last heartbeat found leases that are to get their time again.
func (m *memberships) extends() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.extending
}

// heardLately says whether a heartbeat has seen, a moment ago, that leases can be renewed.
func (m *memberships) heardLately() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return time.Since(m.heard) < beatSilence
}

// beatSince makes sure that there was a heartbeat after a moment: those who wait share one. Errors: the heartbeat's.
func (r *replica) beatSince(ctx context.Context, moment time.Time) error {
	for ctx.Err() == nil {
		r.members.mu.RLock()
		began, err, later := r.members.began, r.members.err, r.members.later
		r.members.mu.RUnlock()
		if began.After(moment) {
			return err
		}
		select {
		case r.beatNow <- struct{}{}:
		default: // somebody has asked
		}
		select {
		case <-later:
		case <-ctx.Done():
		case <-r.s.ctx.Done():
			return ErrClosed
		}
	}
	return ctx.Err()
}

// beats keeps saying that this replica lives, and looks for leases that have ended when that is its part.
func (r *replica) beats() {
	ctx := r.s.ctx
	failing := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			due = true
		case <-r.beatNow:
		}
		began := time.Now()
		err := r.beat(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			if failed {
				r.s.cfg.Logger.Warn("the database does not answer this replica's heartbeat", "error", err)
			} else {
				r.s.cfg.Logger.Info("the database answers again")
			}
		}
		if !due {
			continue
		}
		if err == nil && r.leads() && time.Since(began) < beatSilence {
			r.lessor.look(ctx)
		}
		every := beatOther
		if r.leads() {
			every = beatLeader
		}
		timer.Reset(r.beatPeriod(every))
	}
}

// beatPeriod makes heartbeats so frequent that reads can rely on the last one.
func (r *replica) beatPeriod(every time.Duration) time.Duration {
	if r.staleness == 0 {
		return every // no read relies on one
	}
	return min(every, max(r.staleness/2, beatShortest))
}

// leave is the last that the database hears of this replica: whatever says that it lives would bring it back.
func (r *replica) leave() { r.left.Do(r.leaveNow) }

func (r *replica) leaveNow() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := r.b.Leave(ctx, r.s.settings.MemberID); err != nil {
		r.s.cfg.Logger.Info("the other replicas will miss this one only when its time is up", "error", err)
	}
}

// watchContact notices that the database is out of reach though every question may hang.
func (r *replica) watchContact() {
	tick := time.NewTicker(contactPeriod)
	defer tick.Stop()
	for {
		select {
		case <-r.s.ctx.Done():
			return
		case now := <-tick.C:
			if r.contact.look(now) {
				r.s.cfg.Logger.Error("the database is out of reach: streams that asked for a leader end, so that "+
					"clients go to other replicas",
					"for", contactTimeout)
			}
		}
	}
}

func (r *replica) leads() bool {
	r.members.mu.RLock()
	defer r.members.mu.RUnlock()
	return r.members.leader == r.s.settings.MemberID && !r.contact.isLost()
}

func (c *contact) isLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// onlyMember says that no other replica was heard of. One that joins asks for what it misses until it gets hints.
func (r *replica) onlyMember() bool {
	r.members.mu.RLock()
	defer r.members.mu.RUnlock()
	return len(r.members.members) == 1
}

func (r *replica) membership() (members []backend.Member, leader uint64) {
	m := &r.members
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Clone(m.members), m.leader
}

func (r *replica) hear(ctx context.Context) error { return r.beatSince(ctx, time.Now()) }

func (r *replica) unreachable() <-chan struct{} { return r.contact.channel() }

// Members returns the replicas that live, by id, as this one last heard; nil when no others can be.
func (s *Store) Members() []backend.Member {
	members, _ := s.peers.membership()
	return members
}

// HearMembers asks the database who lives: Members returns at least those who had joined before the call. Errors:
// [ErrUnavailable], [ErrClosed], the context's.
func (s *Store) HearMembers(ctx context.Context) error { return s.peers.hear(ctx) }

// Leader returns the id of the replica that has the maintenance lease: the same on all replicas, 0 while nobody has it.
func (s *Store) Leader() uint64 {
	_, leader := s.peers.membership()
	return leader
}

// Leads says whether this process does the maintenance: compaction and the like. Of several replicas one does.
func (s *Store) Leads() bool { return s.peers.leads() }

// NoLeader returns a channel that is closed when the database has been out of reach for five seconds. After it has been
// closed, ask again: there is another one as soon as the database answers. It is nil, which blocks for ever, when the
// database cannot get out of reach.
func (s *Store) NoLeader() <-chan struct{} { return s.peers.unreachable() }

// Epoch is raised when history was lost; etcd's raft term. What is read after it is of no older history.
func (s *Store) Epoch() int64 { return s.epoch.Load() }
