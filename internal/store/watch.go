package store

import (
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/watch"
)

type (
	// WatchStream carries any number of watches to one consumer.
	WatchStream = watch.Stream
	// WatchRequest starts a watch.
	WatchRequest = watch.Request
	// WatchResponse is the next response to send on a watch stream.
	WatchResponse = watch.Response
	// WatchStats describes the watches of a store, for metrics.
	WatchStats = watch.Stats
	// Event is one change of one key.
	Event = watch.Event
)

// Errors of watches: why a stream has ended, and why a watch is refused.
var (
	// ErrWatchClosed means that the stream was closed, by its owner or with the store.
	ErrWatchClosed = watch.ErrClosed
	// ErrWatchEmptyRange refuses a watch whose range contains no keys.
	ErrWatchEmptyRange = watch.ErrEmptyRange
	// ErrWatchDuplicateID refuses a watch with the id of another watch on its stream.
	ErrWatchDuplicateID = watch.ErrDuplicateID
)

// newHub returns the hub of the store's watches, which starts after the clock's revision.
func (s *Store) newHub(clock backend.Clock) *watch.Hub {
	cfg := watch.Config{
		History: s.backend, Revision: s.Revision, Start: s.background.start, Auth: s.Auth,
		Logger: s.cfg.Logger, Observer: s.cfg.Observer, ProgressInterval: s.cfg.ProgressInterval,
		WindowBytes: s.cfg.WindowBytes, WatcherBytes: s.cfg.WatcherBytes, WatchBytes: s.cfg.WatchBytes,
	}
	if _, shared := s.backend.(backend.Shared); shared {
		cfg.Confirm = s.confirm
	}
	return watch.New(s.ctx, clock, cfg)
}

// NewWatchStream opens a stream. The caller must close it.
func (s *Store) NewWatchStream() *WatchStream { return s.hub.NewStream() }

// WatchStats counts the streams and watches, and what they hold.
func (s *Store) WatchStats() WatchStats { return s.hub.Stats() }

// Lag is how far the watches of this replica are behind what was committed.
type Lag struct {
	// Tail is the age of the latest moment before which everything committed, by any process, is known to be published
	// here. In normal operation it is at most about a second. It is 0 if no other process writes.
	Tail time.Duration
	watch.Lag
}

// Behind returns [Lag].Tail.
func (s *Store) Behind() time.Duration { return s.peers.behind() }

// Lag measures how far the watches are behind, and counts those that have been behind for at least threshold. It
// notices that a client receives nothing only by comparing two calls, so call it about once a second. It examines each
// stream and at each watch that is catching up, and nothing is published while it does.
func (s *Store) Lag(threshold time.Duration) Lag {
	return Lag{Lag: s.hub.Lag(threshold), Tail: s.peers.behind()}
}
