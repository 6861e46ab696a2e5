package simdb

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// server is one database server. Cluster.mu guards it.
type server struct {
	cluster *Cluster
	number  int
	run     *run // nil while it is down
	primary bool
	frozen  bool
	full    bool          // no room for rows
	offset  time.Duration // of its clock

	timeline int64  // of the next run, too
	head     *state // newest, in the write-ahead log
	visible  *state // newest that reads see
	position uint64 // of head, in commits since the cluster began

	standby *server
	shipped uint64        // the position that the standby has received
	linked  bool          // the standby receives what the primary writes
	lag     time.Duration // how late
	sync    bool          // commits wait for the standby
}

// run is a server process, from its start to its end.
type run struct {
	server   *server
	identity backend.Server // the timeline changes with a promotion
	ended    chan struct{}
	locks    locks
	hears    []*listener
}

// errBroken means that a connection broke: its server is gone.
var errBroken = errors.New("the connection broke")

func (s *server) now() time.Time { return time.Now().Add(s.offset) }

// start starts the server's process. A commit that waited for a standby when the last process ended is visible now.
func (s *server) start() {
	s.run = &run{
		server: s, identity: backend.Server{Timeline: s.timeline, Started: s.now().UnixMicro()},
		ended: make(chan struct{}), locks: locks{},
	}
	s.visible = s.head
}

func (s *server) stop() {
	if s.run != nil {
		close(s.run.ended)
		s.run, s.frozen = nil, false
	}
}

func (s *server) origin() backend.Origin {
	return backend.Origin{Server: s.run.identity, At: s.now().UnixMicro()}
}

// append makes next the newest state and returns its position. The standby receives it now or later.
func (s *server) append(next *state) uint64 {
	s.cluster.written++
	s.head, s.position = next, s.cluster.written
	if !s.sync {
		s.visible = next
	}
	s.ship()
	return s.position
}

// ship sends the newest state to the standby.
func (s *server) ship() {
	b, head, position := s.standby, s.head, s.position
	if b == nil || !s.linked || b.run == nil {
		return
	}
	if s.lag == 0 {
		s.receive(b, head, position)
		return
	}
	time.AfterFunc(s.lag, func() {
		s.cluster.mu.Lock()
		defer s.cluster.mu.Unlock()
		if s.standby == b && s.linked && b.run != nil && !b.frozen && !b.primary && position > b.position {
			s.receive(b, head, position)
		}
	})
}

// receive makes the standby hold a state, and the primary show it.
func (s *server) receive(b *server, head *state, position uint64) {
	if b.frozen {
		return
	}
	b.head, b.visible, b.position = head, head, position
	s.shipped = position
	if s.sync {
		s.visible = head
	}
	s.cluster.changed()
}

// acknowledged waits until the server may acknowledge a commit at a position. Errors: errBroken.
func (r *run) acknowledged(position uint64) error {
	s := r.server
	return r.server.cluster.await(context.Background(), r, func() bool {
		return !s.sync || s.shipped >= position
	})
}

// transaction is a transaction on a server. It is one step, after it has taken its locks.
type transaction struct {
	run  *run
	held []lockName
	over bool
}

// step runs f on a copy of the newest state and appends it, unless f fails. It waits for the standby, and then releases
// the locks. Errors: f's, errBroken if the commit may or may not survive.
func (x *transaction) step(f func(st *state, now time.Time) error) error {
	s := x.run.server
	c := s.cluster
	if err := c.await(context.Background(), x.run, func() bool { return !s.frozen }); err != nil {
		return err
	}
	c.mu.Lock()
	if s.run != x.run || x.over {
		c.mu.Unlock()
		return errBroken
	}
	next := s.head.edit()
	if err := f(next, s.now()); err != nil {
		x.unlock()
		c.mu.Unlock()
		return err
	}
	position := s.append(next)
	c.mu.Unlock()
	err := x.run.acknowledged(position)
	c.mu.Lock()
	defer c.mu.Unlock()
	x.unlock()
	return err
}
