package watch

import (
	"context"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// controlMax is how many responses to requests may wait for the consumer, as in etcd.
const controlMax = 16

// compactedMax is how many watches that compaction has canceled a stream remembers. The ids of further ones are free.
const compactedMax = 4096

// Stream carries any number of watches to one consumer, which calls Next in a loop. Requests come from one other
// goroutine, which calls WaitCapacity before each. Without that, responses would pile up if the consumer stopped,
// because the methods for requests never block. The responses that the stream sends unasked are bounded by its watches:
// at most one cancellation and one or two progress responses for each.
//
// As in etcd, the number of watches is not bounded: clients put thousands of them on one stream. An idle watch takes
// about a kilobyte plus its keys.
type Stream struct {
	hub *Hub

	mu         sync.Mutex // locked after hub.mu
	watches    map[int64]*watcher
	compacted  map[int64]struct{} // ids of watches that compaction has canceled, and the client has not: see Cancel
	nextID     int64
	control    []*Response // responses that go before events
	ready      []*watcher
	unsynced   []*watcher             // watches behind with nothing pending, in turn; see catchup.go
	queued     bool                   // in the hub's queue; changes under hub.mu as well
	bytes      int64                  // of pending events
	polling    bool                   // the consumer waits in Next, or is about to receive something
	behind     map[*watcher]time.Time // watches whose clients have not received all they missed, and since when
	since      time.Time              // when the consumer last received something
	progress   bool                   // a manual request waits
	target     int64                  // the revision that its response must reach
	asked      bool                   // a manual request waits for a confirmation to start
	confirming bool                   // a confirmation is under way
	wake       chan struct{}
	capacity   chan struct{} // capacity 1: control has free capacity again
	closed     chan struct{}
	ended      bool
	responses  uint64 // responses with events
	sample     consumption
}

// NewStream opens a stream. The caller must close it.
func (h *Hub) NewStream() *Stream {
	st := &Stream{
		hub: h, watches: map[int64]*watcher{}, compacted: map[int64]struct{}{}, behind: map[*watcher]time.Time{},
		wake: make(chan struct{}, 1), capacity: make(chan struct{}, 1), closed: make(chan struct{}),
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

// WaitCapacity waits until fewer than controlMax responses to requests wait for the consumer. Errors: ctx's,
// [ErrClosed].
func (st *Stream) WaitCapacity(ctx context.Context) error {
	for {
		st.mu.Lock()
		full := len(st.control) >= controlMax
		st.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-st.capacity:
		case <-ctx.Done():
			return ctx.Err()
		case <-st.closed:
			return ErrClosed
		}
	}
}

// CatchUp must be called before Watch. It returns once the stream knows everything, compactions included, that any
// replica acknowledged before the call. So a watch of the present starts after it, and a watch of compacted revisions
// ends at once. Errors: ctx's, those of the backend; the watch may be started anyway.
func (st *Stream) CatchUp(ctx context.Context) error {
	if st.hub.cfg.Confirm == nil {
		return nil
	}
	return st.hub.cfg.Confirm(ctx)
}

// Watch starts a watch. Next returns the response, also if the watch is refused.
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
	req.Key, req.End = nil, nil // the span holds them
	w := &watcher{stream: st, req: req, span: sp, next: req.StartRevision, chunkRows: firstChunkRows}
	st.watches[req.ID] = w
	now := max(h.rev, st.hub.cfg.Revision()) // reads are slightly ahead of the hub: what they showed is not new
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
	if w.synced && w.next <= now+1 {
		w.arrive(0)
	}
}

// refusal returns why a request is refused, or nil after giving it an id.
func (st *Stream) refusal(req *Request, sp index.Span) error {
	if req.StartRevision < 0 {
		return backend.ErrCompacted
	}
	if st.hub.cfg.Auth != nil {
		if err := st.hub.cfg.Auth().CanRead(req.As, req.Key, req.End); err != nil {
			return err
		}
	}
	if sp.Empty {
		return ErrEmptyRange
	}
	if req.ID != 0 {
		if st.uses(req.ID) {
			return ErrDuplicateID
		}
		return nil
	}
	for st.uses(st.nextID) {
		st.nextID++
	}
	req.ID = st.nextID
	st.nextID++
	return nil
}

// uses reports whether a watch has that id, or had it until compaction canceled it.
func (st *Stream) uses(id int64) bool {
	_, compacted := st.compacted[id]
	return compacted || st.watches[id] != nil
}

// Cancel ends a watch. After the response to it, Next returns nothing more of the watch. An unknown id is ignored. That
// of a watch which compaction has canceled is not: etcd confirms it, and its client remembers the id until then.
func (st *Stream) Cancel(id int64) {
	h := st.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.uses(id) {
		return
	}
	if w := st.watches[id]; w != nil {
		st.drop(w)
	}
	delete(st.compacted, id)
	st.answer(&Response{ID: id, Revision: h.rev, Canceled: true})
}

// cancelCompacted ends a watch whose events are compacted. Callers hold hub.mu and mu.
func (st *Stream) cancelCompacted(w *watcher, compacted int64) {
	if st.watches[w.req.ID] != w {
		return
	}
	st.drop(w)
	if len(st.compacted) < compactedMax {
		st.compacted[w.req.ID] = struct{}{}
	}
	st.answer(&Response{ID: w.req.ID, Canceled: true, CompactRevision: compacted})
}

// cancelFor ends a watch whose events cannot be read, or may no longer be. Callers hold hub.mu and mu.
func (st *Stream) cancelFor(w *watcher, err error) {
	st.drop(w)
	st.answer(&Response{ID: w.req.ID, Revision: st.hub.rev, Canceled: true, Err: err})
}

// drop removes a watch. Callers hold hub.mu and mu.
func (st *Stream) drop(w *watcher) {
	delete(st.watches, w.req.ID)
	w.forget(w.pending)
	w.pending, w.sending, w.synced, w.ended = nil, 0, false, true // a response being filled has its own events
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
