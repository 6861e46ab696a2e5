package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Config is what a hub needs of the store around it.
type Config struct {
	// History has the events that have left memory.
	History History
	// Revision returns the revision that reads show. It may be a moment ahead of what is published.
	Revision func() int64
	// Confirm returns when everything is published that was acknowledged before the call, by whichever replica. Nil
	// where nobody else writes to the database. Errors: ctx's, those of the backend.
	Confirm func(context.Context) error
	// Start runs f in the background and says so, unless the store is closing.
	Start func(f func()) bool

	Logger *slog.Logger
	// Observer may be nil.
	Observer Observer
	// ProgressInterval is how often idle watches that asked for it get a progress response.
	ProgressInterval time.Duration
	// WindowBytes bounds the recent events kept in memory.
	WindowBytes int64
	// WatcherBytes bounds what waits for one slow watch before it catches up from the window or the database.
	WatcherBytes int64
	// WatchBytes bounds what waits for all watches together: beyond it, those catch up whose clients have taken nothing
	// for the longest time.
	WatchBytes int64
}

// History reads rows that have left memory from the database. A [backend.Backend] is one and documents the methods.
type History interface {
	// History reads the events that watches have missed, in the order of revisions.
	History(ctx context.Context, q backend.HistoryQuery) (backend.History, error)
	// Range reads the row that a key had before a revision.
	Range(ctx context.Context, q backend.RangeQuery) ([]backend.Row, backend.Clock, error)
	// Rows reads superseded rows whose values are not in memory.
	Rows(ctx context.Context, ids []backend.RowID, bytes int64) ([]backend.Row, backend.Clock, error)
}

// Observer observes what watches deliver, for metrics. It must be cheap.
type Observer interface {
	// Events reports events handed to a watch stream.
	Events(n int)
}
