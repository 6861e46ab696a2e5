package watch

import (
	"errors"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
)

var (
	// ErrClosed is returned by a stream that was closed, by its owner or with the hub.
	ErrClosed = errors.New("watch stream is closed")
	// ErrEmptyRange refuses a watch whose range contains no keys.
	ErrEmptyRange = errors.New("watcher range is empty")
	// ErrDuplicateID refuses a watch with the id of another watch on its stream.
	ErrDuplicateID = errors.New("duplicate watch ID provided on the WatchStream")
)

// Event is one change of one key. Prev is the row that it superseded: nil for a create, or if it was not asked for or
// is compacted.
type Event struct {
	Row  *backend.Row
	Prev *backend.Row
}

// Request starts a watch.
type Request struct {
	// As is who watches. The watch ends when it may no longer read the keys.
	As auth.Identity
	// ID is the watch's id on its stream; 0 lets the stream choose.
	ID       int64
	Key, End []byte
	// StartRevision is the first revision wanted; 0 means from now on. A negative one is answered as compacted.
	StartRevision  int64
	PrevKV         bool
	ProgressNotify bool
	// CaughtUp asks for one progress response, with the watch's id, after everything that was committed before the
	// watch began. A watch from a future revision has none.
	CaughtUp bool
	NoPut    bool
	NoDelete bool
	Fragment bool // copied to the Response
}

// Response is the next thing to send on a watch stream.
type Response struct {
	ID int64 // -1 for answers to manual progress requests and for refused watches
	// Revision is for the header. It is never below that of the events. It is 0 in the cancellation of a compacted
	// watch.
	Revision int64
	Events   []Event
	Created  bool
	Canceled bool
	// CompactRevision is set if the watch was canceled because its events are compacted.
	CompactRevision int64
	// Err is why a watch was refused: [ErrEmptyRange], [ErrDuplicateID], [backend.ErrCompacted] (negative start) or an
	// error of [auth.State.CanRead]; or why it was canceled later: [backend.ErrCorrupt] or an error of
	// [auth.State.CanWatch].
	Err      error
	Fragment bool
}
