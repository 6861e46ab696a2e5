package postgres

import (
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// servers knows what the servers that were met have proven.
//
// A commit that a server acknowledges, and with it the synchronous standby, proves that the standby had not been
// promoted when the commit began. What the server answers is therefore current, but for what another one may have
// acknowledged since. So the beginning of the newest such commit is kept for each server. It counts for that server
// only: the connections at hand may lead to several.
type servers struct {
	log *slog.Logger

	mu      sync.Mutex
	commits map[backend.Server]commit
	latest  place          // that of the connection made last
	highest place          // of the timelines that were met in latest's system
	doubted backend.Server // does not acknowledge commits
	sockets map[*socket]place
}

// place is a server and the system that it serves: timelines can be compared within one system only.
type place struct {
	backend.Server
	system int64
}

// commit is when one began, by both clocks.
type commit struct {
	began time.Time
	at    int64
}

// serversKept bounds the servers whose commits are kept; one is replaced at a failover or a restart.
const serversKept = 8

// acknowledged notes a commit that began then, by this machine's clock, and behind the answer o.
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
	if !ok && len(s.commits) >= serversKept || s.commits == nil {
		s.commits = map[backend.Server]commit{}
	}
	s.commits[o.Server] = commit{began, o.At}
	if s.latest.Server == o.Server {
		s.highest = s.latest // even if it is a lower one: somebody went back to it
	}
}

// unconfirmed implements [backend.Shared.Unconfirmed]. It takes the longest of what three clocks say: this machine's
// monotonic one, which may stand still while the machine is suspended; its wall clock, which does not; and the
// server's, which goes on while a virtual machine is paused that this process runs on. Clocks that jump ahead cost a
// commit, no more.
func (s *servers) unconfirmed(o backend.Origin, now time.Time) time.Duration {
	s.mu.Lock()
	c, ok := s.commits[o.Server]
	s.mu.Unlock()
	if !ok {
		return math.MaxInt64
	}
	return max(now.Sub(c.began), now.Round(0).Sub(c.began.Round(0)), microseconds(o.At-c.at))
}

// met notes the server that a connection was made to. When it is another one than before, the connections to that are
// closed at once, as what is under way on them may wait for an answer in vain.
func (s *servers) met(p place, over *socket) {
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

// socket is that of a connection whose server is known.
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

// current says whether a connection leads to the server that was met last: others belong to one that was replaced.
func (s *servers) current(p place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p == place{} || p == s.latest
}

// preferred says whether a connection to p is as good as one to another server may be: it was not replaced by one of a
// higher timeline, and acknowledges commits.
func (s *servers) preferred(p place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p == place{} || p.Server != s.doubted && (p.system != s.highest.system || p.Timeline >= s.highest.Timeline)
}

// doubt notes that a server does not acknowledge commits.
func (s *servers) doubt(p place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubted = p.Server
}

// Unconfirmed implements [backend.Shared].
func (b *Backend) Unconfirmed(o backend.Origin) time.Duration {
	return b.servers.unconfirmed(o, time.Now())
}
