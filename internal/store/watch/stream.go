package watch

import (
	"context"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// controlMax is how many answers to requests may wait for the consumer, as in etcd.
const controlMax = 16

// Stream carries any number of watches to one consumer, who calls Next in a loop. Requests come from one other
// goroutine, which calls Room before each: the methods for requests never block, and so their answers would pile up if
// the consumer stood still. What the stream itself has to say is bounded by its watches: at most an end and one or two
// notices of progress for each.
//
// The number of watches is not bounded, as it is not in etcd: clients share a stream among thousands of them. One that
// is idle takes about a kilobyte and its keys.
type Stream struct {
	hub *Hub

	mu         sync.Mutex // after hub.mu
	watches    map[int64]*watcher
	nextID     int64
	control    []*Response // goes before events
	ready      []*watcher
	unsynced   []*watcher             // those behind that have nothing pending, in turn; see catchup.go
	queued     bool                   // in the hub's queue; changes under hub.mu as well
	bytes      int64                  // of what is pending
	comes      bool                   // the consumer waits in Next, or is about to take something
	behind     map[*watcher]time.Time // those whose clients have not taken all that they have missed, and since when
	since      time.Time              // when it took something last
	progress   bool                   // a manual request waits
	target     int64                  // what its answer must reach
	asked      bool                   // a manual request waits for the database to be asked what others have written
	confirming bool                   // that is being asked
	wake       chan struct{}
	room       chan struct{} // capacity 1: control has room again
	closed     chan struct{}
	ended      bool
	taken      uint64 // responses with events
	look       consumption
}

// NewStream opens a stream; Close it.
func (h *Hub) NewStream() *Stream {
	st := &Stream{
		hub: h, watches: map[int64]*watcher{}, behind: map[*watcher]time.Time{},
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.streams[st] = struct{}{}
	}
	h.mu.Unlock()
	if closed {
		st.Close()
	}
	return st
}

func (st *Stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

func (st *Stream) answer(r *Response) {
	st.control = append(st.control, r)
	st.signal()
}

// Room waits until few enough answers are waiting to be sent. Errors: ctx's, [ErrClosed].
func (st *Stream) Room(ctx context.Context) error {
	for {
		st.mu.Lock()
		full := len(st.control) >= controlMax
		st.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-st.room:
		case <-ctx.Done():
			return ctx.Err()
		case <-st.closed:
			return ErrClosed
		}
	}
}

// CatchUp is called before Watch. It returns when the stream knows of everything, compactions among it, that was
// acknowledged before the call by whichever replica: a watch of the present begins behind it, one of compacted
// revisions ends at once. Errors: ctx's, those of the backend; the watch may be started all the same.
func (st *Stream) CatchUp(ctx context.Context) error {
	if st.hub.cfg.Confirm == nil {
		return nil
	}
	return st.hub.cfg.Confirm(ctx)
}

// Watch starts a watch. Its answer, also a refusal, comes out of Next.
func (st *Stream) Watch(req Request) {
	h := st.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	sp := index.NewSpan(req.Key, req.End)
	if err := st.refusal(&req, sp); err != nil {
		st.answer(&Response{ID: -1, Revision: h.rev, Created: true, Canceled: true, Err: err})
		return
	}
	req.Key, req.End = nil, nil // the span has them
	w := &watcher{stream: st, req: req, span: sp, next: req.StartRevision, chunk: pieceFirst}
	st.watches[req.ID] = w
	now := max(h.rev, st.hub.cfg.Revision()) // reads are a moment ahead of the hub: what they showed is not news
	st.answer(&Response{ID: req.ID, Revision: now, Created: true})
	h.add(w)
	switch {
	case w.next == 0:
		w.next, w.synced = now+1, true
	case w.next > h.rev:
		w.synced = true
	case w.next < h.compacted:
		st.cancelCompacted(w, h.compacted)
	case !w.join():
		w.fallBehind()
	}
}

// refusal checks a request and gives it its id.
func (st *Stream) refusal(req *Request, sp index.Span) error {
	if req.StartRevision < 0 {
		return backend.ErrCompacted
	}
	if sp.Empty {
		return ErrEmptyRange
	}
	if req.ID != 0 {
		if _, used := st.watches[req.ID]; used {
			return ErrDuplicateID
		}
		return nil
	}
	for st.watches[st.nextID] != nil {
		st.nextID++
	}
	req.ID = st.nextID
	st.nextID++
	return nil
}

// Cancel ends a watch; nothing of it comes out of Next after the answer. An unknown id is ignored.
func (st *Stream) Cancel(id int64) {
	h := st.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	if w := st.watches[id]; w != nil {
		st.drop(w)
		st.answer(&Response{ID: id, Revision: h.rev, Canceled: true})
	}
}

// cancelCompacted ends a watch whose events are gone. Callers hold hub.mu and mu.
func (st *Stream) cancelCompacted(w *watcher, compacted int64) {
	if st.watches[w.req.ID] != w {
		return
	}
	st.drop(w)
	st.answer(&Response{ID: w.req.ID, Canceled: true, CompactRevision: compacted})
}

// drop forgets a watch. Callers hold hub.mu and mu.
func (st *Stream) drop(w *watcher) {
	delete(st.watches, w.req.ID)
	w.forget(w.pending)
	w.pending, w.sending, w.synced, w.ended = nil, 0, false, true // a response that is being made has its events
	delete(st.behind, w)
	st.hub.remove(w)
}

// Close ends the stream and its watches.
func (st *Stream) Close() {
	h := st.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	st.ended = true
	close(st.closed)
	for _, w := range st.watches {
		st.drop(w)
	}
	delete(h.streams, st)
}
