package watch

import (
	"slices"
	"time"
)

const (
	// catchUpReads bounds the concurrent reads of history.
	catchUpReads = 4
	// catchUpRetry is how long to wait before reading again after the database failed.
	catchUpRetry = 200 * time.Millisecond
)

// requestEvents queues a stream whose consumer asks for what its watches have missed.
func (h *Hub) requestEvents(st *Stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	h.enqueue(st)
}

// enqueue adds a stream that needs events to the queue, and starts another reader if there are fewer than catchUpReads.
// Callers hold mu and the stream's mu.
func (h *Hub) enqueue(st *Stream) {
	if h.closed || !st.needsEvents() {
		return
	}
	st.queued = true
	h.queue = append(h.queue, st)
	if h.readers < catchUpReads && h.cfg.Start(h.catchUp) {
		h.readers++
	}
}

// needsEvents reports whether the stream must be queued: it has unsynced watches, and capacity for what they have
// missed. Callers hold mu.
func (st *Stream) needsEvents() bool {
	return !st.queued && len(st.unsynced) > 0 && st.bytes < st.hub.streamBytes()
}

// dequeue returns the next stream in the queue that has an unsynced watch to read for, and that watch. Callers hold mu.
func (h *Hub) dequeue() (*Stream, *watcher) {
	for len(h.queue) > 0 && !h.closed {
		st := h.queue[0]
		h.queue = slices.Delete(h.queue, 0, 1)
		st.mu.Lock()
		st.queued = false
		w := st.lead()
		st.mu.Unlock()
		if w != nil {
			return st, w
		}
	}
	return nil, nil
}

// lead returns the next unsynced watch. It cancels watches whose next events are compacted. Callers hold hub.mu and mu.
func (st *Stream) lead() *watcher {
	h := st.hub
	for len(st.unsynced) > 0 {
		w := st.unsynced[0]
		if !w.ended && w.next >= h.compacted {
			return w
		}
		st.unsynced = st.unsynced[1:]
		if !w.ended {
			st.cancelCompacted(w, h.compacted)
		}
	}
	st.unsynced = nil
	return nil
}

// catchUp reads for the streams in the queue until it is empty.
func (h *Hub) catchUp() {
	for {
		p, ready := h.choose()
		if p == nil {
			return
		}
		p.failed = !ready && !h.read(p)
		h.deliver(p)
	}
}

// deliver gives the members the events of the chunk that match them. It ends them if the chunk is corrupt.
func (h *Hub) deliver(p *chunk) {
	for i, w := range p.members {
		var wanted []*event
		if !p.failed {
			wanted = w.matching(p.events, p.from[i], 0)
		}
		h.mu.Lock()
		w.stream.mu.Lock()
		if !w.ended && p.corrupt != nil {
			w.stream.cancelFor(w, p.corrupt)
		}
		if !w.ended {
			if !p.failed && w.next == p.from[i] { // otherwise a reset came in between
				w.receive(wanted, p.through)
			}
			w.listUnsynced()
			if w.stream.bytes == 0 {
				h.enqueue(w.stream) // its consumer still waits
			}
		}
		w.stream.mu.Unlock()
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.evict()
}

// receive queues the matching events, complete through a revision, up to the stream's capacity. The watch joins
// the synced ones if it has caught up with the hub. Callers hold hub.mu and the stream's mu.
func (w *watcher) receive(wanted []*event, through int64) {
	if through < w.next {
		return
	}
	st := w.stream
	given := wanted[:0]
	if capacity := st.hub.streamBytes() - st.bytes; capacity > 0 {
		given = firstRevisions(wanted, len(wanted), capacity)
	}
	w.next = through + 1
	if len(given) < len(wanted) {
		w.next = wanted[len(given)].revision()
	}
	w.push(given)
	w.join()
}
