package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
)

// Config connects a hub to the store around it.
type Config struct {
	// History provides the events that are not in memory.
	History History
	// Revision returns the revision that reads show. It may be slightly ahead of the hub's.
	Revision func() int64
	// Confirm returns once everything acknowledged before the call, by any replica, is published. Nil if no other
	// process writes to the database. Errors: ctx's, those of the backend.
	Confirm func(context.Context) error
	// Auth returns the users and roles, which decide who may watch. Nil lets everybody.
	Auth func() *auth.State
	// Start runs f in the background and returns true, or returns false if the store is closing.
	Start func(f func()) bool

	Logger *slog.Logger
	// Observer may be nil.
	Observer Observer
	// ProgressInterval is how often idle watches with progress notify get a progress response.
	ProgressInterval time.Duration
	// WindowBytes bounds the recent events kept in memory, in bytes.
	WindowBytes int64
	// WatcherBytes bounds the events pending for one slow watch, in bytes. Beyond it, the watch catches up from the
	// window or the database.
	WatcherBytes int64
	// WatchBytes bounds the events pending for all watches together, in bytes. Beyond it, the watches whose clients
	// have received nothing for the longest time have to catch up.
	WatchBytes int64
}

// History reads rows that are not in memory from the database. A [backend.Backend] is one, and documents the methods.
type History interface {
	// History reads the events that watches have missed, in revision order.
	History(ctx context.Context, q backend.HistoryQuery) (backend.History, error)
	// Range reads the row that a key had before a revision.
	Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error)
	// Rows reads superseded rows whose values are not in memory.
	Rows(ctx context.Context, ids []backend.RowID, bytes int64) ([]backend.Row, backend.Clock, error)
}

// Observer observes what watches deliver, for metrics. Its methods must be cheap.
type Observer interface {
	// Events is called with the number of events in a response handed to a watch stream.
	Events(n int)
}
