package postgres

import (
	"errors"
	"log/slog"
	"math"
	"net"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// dialled returns one end of a connection, and a function that reports whether it was closed.
func dialled(t *testing.T, s *servers) (c *socket, closed func() bool) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	return &socket{Conn: here, servers: s}, func() bool {
		_ = there.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := there.Read(make([]byte, 1))
		var e net.Error
		return !errors.As(err, &e) || !e.Timeout()
	}
}

func TestServers(t *testing.T) {
	s := servers{log: slog.New(slog.DiscardHandler)}
	first, second := place{backend.Server{Timeline: 1, Started: 10}, 7},
		place{backend.Server{Timeline: 2, Started: 5}, 7}
	check := func(what string, p place, current, preferred bool) {
		t.Helper()
		if got := s.current(p); got != current {
			t.Errorf("%s: current: %t", what, got)
		}
		if got := s.preferred(p); got != preferred {
			t.Errorf("%s: preferred: %t", what, got)
		}
	}
	old, oldClosed := dialled(t, &s)
	s.connected(first, old)
	check("the first", first, true, true)
	s.doubt(first)
	check("one that does not acknowledge", first, true, false)
	s.acknowledged(backend.Origin{Server: first.Server}, time.Now())
	check("one that does again", first, true, true)
	check("behind a pooler", place{}, true, true)
	if oldClosed() {
		t.Error("the connection to the only server is closed")
	}
	other, otherClosed := dialled(t, &s)
	s.connected(second, other)
	if !oldClosed() || otherClosed() {
		t.Errorf("connections closed: that to the replaced server: %t, that to the other: %t", oldClosed(),
			otherClosed())
	}
	check("one that was replaced", first, false, false)
	check("the one that replaced it", second, true, true)
	check("one of another system", place{backend.Server{Timeline: 1, Started: 3}, 8}, false, true)
	s.connected(first, old) // nothing else could be reached
	check("the one that replaced it, unreachable", second, false, true)
	check("one that was replaced, in want of a better one", first, true, false)
	s.acknowledged(backend.Origin{Server: first.Server}, time.Now())
	check("one that a connection went back to", first, true, true)
	if _ = old.Close(); len(s.sockets) != 1 {
		t.Errorf("%d connections are known", len(s.sockets))
	}
}

func TestUnconfirmedByAllClocks(t *testing.T) {
	s := servers{log: slog.New(slog.DiscardHandler)}
	server := backend.Server{Timeline: 1}
	began := time.Now()
	s.acknowledged(backend.Origin{Server: server, At: 1000}, began)
	s.acknowledged(backend.Origin{Server: server, At: 500}, began.Add(-time.Minute)) // it was slower
	for what, c := range map[string]struct {
		at   int64
		now  time.Time
		want time.Duration
	}{
		"at once":                       {1000, began, 0},
		"by this machine's clock":       {1000, began.Add(3 * time.Second), 3 * time.Second},
		"by its wall clock alone":       {1000, began.Round(0).Add(5 * time.Second), 5 * time.Second},
		"by the server's":               {9_001_000, began, 9 * time.Second},
		"the server's clock was set":    {-1000, began.Add(time.Second), time.Second},
		"all of them, of which longest": {2_001_000, began.Add(time.Second), 2 * time.Second},
	} {
		if got := s.unconfirmed(backend.Origin{Server: server, At: c.at}, c.now); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	over := func(made time.Time) time.Duration {
		return s.unconfirmed(backend.Origin{Server: server, At: 1000, Since: made}, began.Add(time.Second))
	}
	if got := over(began.Add(-time.Millisecond)); got != time.Second {
		t.Errorf("over a connection that was made before the commit: %v", got)
	}
	if got := over(began.Add(time.Millisecond)); got != math.MaxInt64 {
		t.Errorf("over a connection that was made after it: %v", got)
	}
	if got := s.unconfirmed(backend.Origin{Server: backend.Server{Timeline: 2}}, began); got != math.MaxInt64 {
		t.Errorf("another server: %v", got)
	}
}
