package store

import (
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/watch"
)

type (
	// WatchStream carries watches to one consumer.
	WatchStream = watch.Stream
	// WatchRequest starts a watch.
	WatchRequest = watch.Request
	// WatchResponse is the next thing to send on a watch stream.
	WatchResponse = watch.Response
	// WatchStats describes the watches of a store, for metrics.
	WatchStats = watch.Stats
	// Event is one change of one key.
	Event = watch.Event
)

// Watches: why a stream has no more of them, and reasons for which one is refused.
var (
	// ErrWatchClosed: the stream was closed, by its owner or with the store.
	ErrWatchClosed      = watch.ErrClosed
	ErrWatchEmptyRange  = watch.ErrEmptyRange
	ErrWatchDuplicateID = watch.ErrDuplicateID
)

// newHub makes the hub of the store's watches, which begins behind the clock's revision.
func (s *Store) newHub(clock backend.Clock) *watch.Hub {
	cfg := watch.Config{
		History: s.backend, Revision: s.Revision, Start: s.background.start,
		Logger: s.cfg.Logger, Observer: s.cfg.Observer, ProgressInterval: s.cfg.ProgressInterval,
		WindowBytes: s.cfg.WindowBytes, WatcherBytes: s.cfg.WatcherBytes, WatchBytes: s.cfg.WatchBytes,
	}
	if _, shared := s.backend.(backend.Shared); shared {
		cfg.Confirm = s.confirm
	}
	return watch.New(s.ctx, clock, cfg)
}

// NewWatchStream opens a stream; Close it.
func (s *Store) NewWatchStream() *WatchStream { return s.hub.NewStream() }

// WatchStats counts the streams and watches.
func (s *Store) WatchStats() WatchStats { return s.hub.Stats() }

// Lag is how far the watches of this replica are behind what was committed.
type Lag struct {
	// Tail is the age of the last moment before which all that was committed, by whomever, is known to be published
	// here. While all is well it is at most about a second; 0 where nobody else writes.
	Tail time.Duration
	watch.Lag
}

// Lag looks how far the watches are behind, and counts those that have been for at least threshold. What a client does
// not take is noticed by looking again: call it about once a second. It costs a look at each stream and at each watch
// that catches up, while nothing is published.
func (s *Store) Lag(threshold time.Duration) Lag {
	return Lag{Lag: s.hub.Lag(threshold), Tail: s.peers.behind()}
}
