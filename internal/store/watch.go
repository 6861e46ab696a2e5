package store

import (
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// newHub makes the hub of the store's watches, which begins behind the clock's revision.
func (s *Store) newHub(clock backend.Clock) *hub {
	cfg := hubConfig{
		History: s.backend, Revision: s.Revision, Start: s.background.start,
		Logger: s.cfg.Logger, Observer: s.cfg.Observer, ProgressInterval: s.cfg.ProgressInterval,
		WindowBytes: s.cfg.WindowBytes, WatcherBytes: s.cfg.WatcherBytes, WatchBytes: s.cfg.WatchBytes,
	}
	if _, shared := s.backend.(backend.Shared); shared {
		cfg.Confirm = s.confirm
	}
	return newHub(s.ctx, clock, cfg)
}

// NewWatchStream opens a stream; Close it.
func (s *Store) NewWatchStream() *WatchStream { return s.hub.newStream() }

// WatchStats counts the streams and watches.
func (s *Store) WatchStats() WatchStats { return s.hub.stats() }

// Lag is how far the watches of this replica are behind what was committed.
type Lag struct {
	// Tail is the age of the last moment before which all that was committed, by whomever, is known to be published
	// here. While all is well it is at most about a second; 0 where nobody else writes.
	Tail time.Duration
	watchLag
}

// Lag looks how far the watches are behind, and counts those that have been for at least threshold. What a client does
// not take is noticed by looking again: call it about once a second. It costs a look at each stream and at each watch
// that catches up, while nothing is published.
func (s *Store) Lag(threshold time.Duration) Lag {
	out := Lag{watchLag: s.hub.lag(threshold)}
	if s.replica != nil {
		out.Tail = time.Since(*s.replica.through.Load())
	}
	return out
}
