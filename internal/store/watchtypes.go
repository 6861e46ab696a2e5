package store

import "errors"

// Watches: why a stream has no more of them, and reasons for which one is refused.
var (
	// ErrWatchClosed: the stream was closed, by its owner or with the store.
	ErrWatchClosed      = errors.New("watch stream is closed")
	ErrWatchEmptyRange  = errors.New("watcher range is empty")
	ErrWatchDuplicateID = errors.New("duplicate watch ID provided on the WatchStream")
)

// Event is one change of one key. Prev is the row it superseded, nil on a create, or when it was not asked for or is
// compacted.
type Event struct {
	Row  *Row
	Prev *Row
}

// WatchRequest starts a watch.
type WatchRequest struct {
	// ID is the watch's id on its stream; 0 lets the stream choose.
	ID       int64
	Key, End []byte
	// StartRevision is the first revision wanted; 0 means from now on, negative is answered as compacted.
	StartRevision  int64
	PrevKV         bool
	ProgressNotify bool
	NoPut          bool
	NoDelete       bool
	Fragment       bool // carried through to WatchResponse
}

// WatchResponse is the next thing to send on a watch stream.
type WatchResponse struct {
	ID int64 // -1 for answers to manual progress requests and for refused watches
	// Revision goes into the header: never behind the events; 0 in the answer to a start below the compacted revision.
	Revision int64
	Events   []Event
	Created  bool
	Canceled bool
	// CompactRevision is set when the watch was canceled because its events are compacted.
	CompactRevision int64
	// Err is why a watch was refused: ErrWatchEmptyRange, ErrWatchDuplicateID or ErrCompacted (negative start).
	Err      error
	Fragment bool
}
