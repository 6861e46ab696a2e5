package postgres

import (
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// servers tracks what the servers that we have connected to have proven.
//
// A commit that a server acknowledges, together with its synchronous standby, proves that the standby had not been
// promoted when the commit began. The server's answers are therefore current, except for what another server may have
// acknowledged since. So servers keeps the start time of the newest such commit for each server. It applies to that
// server only: the open connections may lead to several.
//
// A server that loses one process, for example because the system is out of memory, recovers and keeps its start time.
// It then shows commits that were waiting for the standby, and the standby may lack them. It breaks all connections
// first. So a commit proves nothing about an answer whose connection was made after the commit began.
type servers struct {
	log *slog.Logger

	mu         sync.Mutex
	commits    map[backend.Server]commit
	latest     place          // the server of the newest connection
	lastAnswer backend.Server // that last answered: behind a pooler, the place of a connection is unknown
	highest    place          // with the highest timeline seen in latest's system
	doubted    backend.Server // does not acknowledge commits
	sockets    map[*socket]place
}

// place is a server and the system that it belongs to: timelines can be compared only within one system.
type place struct {
	backend.Server
	system int64
}

// commit is when a commit began, by both clocks.
type commit struct {
	began time.Time
	at    int64
}

// maxServers is the maximum number of servers whose commits are kept. Each failover or restart adds a server.
const maxServers = 8

// acknowledged records a commit that began at began, by this machine's clock, and after the answer o.
func (s *servers) acknowledged(o backend.Origin, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubted == o.Server {
		s.doubted = backend.Server{}
	}
	old, ok := s.commits[o.Server]
	if ok && began.Before(old.began) {
		return
	}
	if !ok && len(s.commits) >= maxServers || s.commits == nil {
		s.commits = map[backend.Server]commit{}
	}
	s.commits[o.Server] = commit{began, o.At}
	if s.latest.Server == o.Server {
		s.highest = s.latest // even if its timeline is lower: somebody went back to it
	}
}

// answeredBy records which server gave an answer.
func (s *servers) answeredBy(o backend.Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastAnswer = o.Server
}

// server implements [backend.Verifying.Server].
func (s *servers) server() backend.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == (place{}) {
		return s.lastAnswer
	}
	return s.latest.Server
}

// unconfirmed implements [backend.Shared.Unconfirmed]. It returns the longest of the times that three clocks show: this
// machine's monotonic clock, which may stop while the machine is suspended; its wall clock, which does not; and the
// server's clock, which continues while the virtual machine of this process is paused. A clock that jumps ahead costs
// only an extra commit.
func (s *servers) unconfirmed(o backend.Origin, now time.Time) time.Duration {
	s.mu.Lock()
	c, ok := s.commits[o.Server]
	s.mu.Unlock()
	if !ok || c.began.Before(o.Since) {
		return math.MaxInt64
	}
	return max(now.Sub(c.began), now.Round(0).Sub(c.began.Round(0)), microseconds(o.At-c.at))
}

// connected records the server that a connection was made to. If it is a different server than before, the connections
// to the others are closed at once, because statements in progress on them may wait in vain for an answer.
func (s *servers) connected(p place, over *socket) {
	s.mu.Lock()
	was, highest := s.latest, s.highest
	s.latest = p
	if s.sockets == nil {
		s.sockets = map[*socket]place{}
	}
	s.sockets[over] = p
	for other, of := range s.sockets {
		if of != p {
			_ = other.Conn.Close()
		}
	}
	if p.system != highest.system || p.Timeline >= highest.Timeline {
		s.highest = p
	}
	s.mu.Unlock()
	switch {
	case was == p || was == place{}:
	case p.system == highest.system && p.Timeline < highest.Timeline:
		s.log.Warn("connected to a database server that another one has replaced, as no other can be reached: unless "+
			"somebody went back to it on purpose, stop "+
			"it", "timeline", p.Timeline, "replaced-by-timeline", highest.Timeline)
	default:
		s.log.Info("connected to another database server, or to the same after a restart", "timeline", p.Timeline,
			"timeline-before", was.Timeline)
	}
}

// socket is the socket of a connection whose server is known.
type socket struct {
	net.Conn
	servers *servers
}

// Close implements [net.Conn].
func (c *socket) Close() error {
	c.servers.mu.Lock()
	delete(c.servers.sockets, c)
	c.servers.mu.Unlock()
	return c.Conn.Close()
}

// current reports whether a connection leads to the server that was connected last: other connections lead to one that
// was replaced.
func (s *servers) current(p place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p == place{} || p == s.latest
}

// preferred reports whether p is as good a server as any other could be: it has not been replaced by one with a higher
// timeline, and it acknowledges commits.
func (s *servers) preferred(p place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p == place{} || p.Server != s.doubted && (p.system != s.highest.system || p.Timeline >= s.highest.Timeline)
}

// doubt records that a server does not acknowledge commits.
func (s *servers) doubt(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubted = p.Server
}

// Unconfirmed implements [backend.Shared].
func (b *Backend) Unconfirmed(o backend.Origin) time.Duration {
	return b.servers.unconfirmed(o, time.Now())
}
