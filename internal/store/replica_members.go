package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// beatLeader and beatOther are the heartbeat periods of the leader and of the other replicas. After each beat, the
	// leader, which has the maintenance lease, looks for leases that have ended.
	beatLeader = 500 * time.Millisecond
	beatOther  = time.Second
	// beatShortest is the shortest heartbeat period. Reads that can rely on no heartbeat then make their own commits.
	beatShortest = 100 * time.Millisecond
	// beatTimeout is how long a silent replica counts as alive.
	beatTimeout = 5 * time.Second
	// beatSilence is how long all replicas must have been silent for the store to conclude that nobody could renew
	// leases.
	beatSilence = 2 * time.Second
	// leaveTimeout bounds how long a stopping store waits to tell the database.
	leaveTimeout = time.Second
	// contactTimeout is how long the database may not respond before this replica is of no use to its clients.
	contactTimeout = 5 * time.Second
	contactPeriod  = 250 * time.Millisecond
)

// memberships is what heartbeats learned, and how the last one went.
type memberships struct {
	mu      sync.RWMutex
	members []backend.Member
	leader  uint64
	// extending is true while leases get their full TTL again; see [backend.Shared.ExtendLeases].
	extending   bool
	began       time.Time
	lastSuccess time.Time // when the last successful one began
	err         error
	later       chan struct{} // closed by the next heartbeat
}

// contact records when the database last accepted a write of this replica: a heartbeat, a batch or a confirmation.
type contact struct {
	mu          sync.Mutex
	last        time.Time
	unreachable chan struct{} // closed while the database is out of reach
	lost        bool
}

func (c *contact) made(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	if c.lost || c.unreachable == nil {
		c.lost, c.unreachable = false, make(chan struct{})
	}
}

// silence returns how long ago the database last accepted a write.
func (c *contact) silence(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.last)
}

// check checks whether the database is out of reach, and reports whether it has just become so.
func (c *contact) check(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost || now.Sub(c.last) < contactTimeout {
		return false
	}
	c.lost = true
	close(c.unreachable)
	return true
}

func (c *contact) channel() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unreachable
}

// self describes this replica to the others.
func (r *replica) self() backend.Member {
	return backend.Member{ID: r.s.settings.MemberID, Name: r.s.cfg.Name, ClientURLs: r.s.cfg.ClientURLs}
}

// beat sends one heartbeat. Only one runs at a time: it is called before beats starts, and by beats.
func (r *replica) beat(ctx context.Context) error {
	s := r.s
	self := r.self()
	began := time.Now()
	m, err := r.b.Heartbeat(ctx, self, beatTimeout, beatSilence)
	led := r.members.learn(m, began, err)
	if err != nil {
		return err
	}
	r.reached()
	if m.Leader == self.ID && led != self.ID {
		s.cfg.Logger.Info("this replica does the maintenance from now on: leases that end, compaction")
	}
	if other, found := r.namesake.check(m.Members, self, began); found {
		s.cfg.Logger.Warn("another replica has this one's name: give each a name of its own, so that logs, metrics "+
			"and the list of members tell them apart", "name", self.Name, "urls", other.ClientURLs)
	}
	return nil
}

// reached takes note that the database has accepted a write of this replica.
func (r *replica) reached() {
	now := time.Now()
	if r.contact.silence(now) >= contactTimeout {
		r.s.endFaults()
	}
	r.contact.made(now)
}

// learn records the result of a heartbeat, and returns the previous leader.
func (m *memberships) learn(got backend.Membership, began time.Time, err error) (led uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	led = m.leader
	if err == nil {
		m.members, m.leader, m.extending, m.lastSuccess = got.Members, got.Leader, got.Extending, began
	}
	m.began, m.err = began, err
	close(m.later)
	m.later = make(chan struct{})
	return led
}

// extends reports whether the last heartbeat found that leases still have to get their full TTL again.
func (m *memberships) extends() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.extending
}

// heartbeatIsFresh reports whether a heartbeat has shown, within beatSilence, that leases can be renewed.
func (m *memberships) heartbeatIsFresh() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return time.Since(m.lastSuccess) < beatSilence
}

// beatSince makes sure that a heartbeat began after moment. Concurrent callers share one. Errors: the heartbeat's,
// ctx's, [ErrClosed].
func (r *replica) beatSince(ctx context.Context, moment time.Time) error {
	for ctx.Err() == nil {
		r.members.mu.RLock()
		began, err, later := r.members.began, r.members.err, r.members.later
		r.members.mu.RUnlock()
		if began.After(moment) {
			return err
		}
		r.beatSoon()
		select {
		case <-later:
		case <-ctx.Done():
		case <-r.s.ctx.Done():
			return ErrClosed
		}
	}
	return ctx.Err()
}

// beatSoon sends a heartbeat before the next one is due.
func (r *replica) beatSoon() {
	select {
	case r.beatNow <- struct{}{}:
	default: // somebody has asked
	}
}

// beats sends heartbeats until the store closes and, on the leader, looks for leases that have ended.
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
		if ctx.Err() != nil {
			return
		}
		failed := err != nil
		if failed {
			r.s.lastFault.Store(&WriteFault{At: time.Now(), Since: began, Err: err})
		}
		if failed != failing {
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
			r.lessor.revokeExpired(ctx)
		}
		every := beatOther
		if r.leads() {
			every = beatLeader
		}
		timer.Reset(r.beatPeriod(every))
	}
}

// beatPeriod shortens the heartbeat period so that reads can rely on the last heartbeat.
func (r *replica) beatPeriod(every time.Duration) time.Duration {
	if r.staleness == 0 {
		return every // no read relies on one
	}
	return min(every, max(r.staleness/2, beatShortest))
}

// leave is this replica's last message to the database: a later heartbeat would bring it back.
func (r *replica) leave() { r.left.Do(r.leaveNow) }

func (r *replica) leaveNow() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := r.b.Leave(ctx, r.s.settings.MemberID); err != nil {
		r.s.cfg.Logger.Info("the other replicas will miss this one only when its time is up", "error", err)
		return
	}
	if r.onlyMember() {
		return
	}
	if err := r.b.Hint(ctx, 0, 0); err != nil {
		r.s.cfg.Logger.Debug("the others notice with their next heartbeat that this replica has left", "error", err)
	}
}

// watchContact notices that the database is out of reach, even while every query hangs.
func (r *replica) watchContact() {
	tick := time.NewTicker(contactPeriod)
	defer tick.Stop()
	for {
		select {
		case <-r.s.ctx.Done():
			return
		case now := <-tick.C:
			if r.contact.check(now) {
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

// onlyMember reports whether no other replica is known. A replica that joins asks for what it misses until it gets
// hints.
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

func (r *replica) refresh(ctx context.Context) error { return r.beatSince(ctx, time.Now()) }

func (r *replica) unreachable() <-chan struct{} { return r.contact.channel() }

// Members returns the live replicas in order of their ids, as this replica last heard of them; nil if there can be no
// others.
func (s *Store) Members() []backend.Member {
	members, _ := s.peers.membership()
	return members
}

// RefreshMembers asks the database for the live replicas. Afterwards, Members returns at least those that had joined
// before the call. Errors: [ErrUnavailable], [ErrClosed], ctx's.
func (s *Store) RefreshMembers(ctx context.Context) error { return s.peers.refresh(ctx) }

// Leader returns the id of the replica that has the maintenance lease. It is the same on all replicas, and 0 while no
// replica has the lease.
func (s *Store) Leader() uint64 {
	_, leader := s.peers.membership()
	return leader
}

// Leads reports whether this process does the maintenance, such as compaction. Of several replicas, one does.
func (s *Store) Leads() bool { return s.peers.leads() }

// NoLeader returns a channel that is closed once the database has been out of reach for five seconds. After that, call
// NoLeader again: there is a new channel as soon as the database responds. The channel is nil, which blocks forever, if
// the database cannot get out of reach.
func (s *Store) NoLeader() <-chan struct{} { return s.peers.unreachable() }

// Epoch returns the epoch, which rises when history was lost; clients see it as etcd's raft term. What is read after
// the call is from no older history.
func (s *Store) Epoch() int64 { return s.epoch.Load() }
