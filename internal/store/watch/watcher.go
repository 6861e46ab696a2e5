package watch

import (
	"time"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// responseEvents and responseBytes bound one response, except for a single revision that is larger.
	responseEvents = 1000
	responseBytes  = 256 << 10
	// slotBytes is what an event takes in a watch's list of pending events.
	slotBytes = 16
	// stagedCapacity bounds the capacity that a watch retains for the events of the next batch, in events.
	stagedCapacity = 64
	// joinEvents bounds the events that a watch examines to join the synced ones: nothing is published while it does.
	joinEvents = 256
)

// watcher is one watch. It is synced while the hub hands it every event as it is published. Otherwise it is behind, and
// gets what it has missed, from next on, as its consumer asks for it (catchup.go). Guarded by its stream's mu; synced
// and next change only while hub.mu is held, too.
type watcher struct {
	stream *Stream
	req    Request
	span   index.Span

	synced    bool
	ended     bool
	next      int64 // the first revision that has not been added to pending
	joined    int64 // the hub's revision when the watch was synced
	pending   []*event
	sending   int      // how many of pending are in the response under way
	bytes     int64    // of pending
	chunkRows int      // rows to read at a time while catching up
	staged    []*event // of the batch being published; guarded by hub.mu
	ready     bool     // in the stream's ready list
	sent      bool     // it was sent events since the last progress tick
	notify    bool     // a progress response waits to be sent
}

func (w *watcher) matches(e *event) bool {
	if e.item.Deleted {
		return !w.req.NoDelete
	}
	return !w.req.NoPut
}

// matching returns the events from revision next on that match the watch, without superseded rows that are compacted.
func (w *watcher) matching(events []*event, next, compacted int64) []*event {
	var out []*event
	for _, e := range events {
		if e.revision() >= next && w.span.Contains(index.KeyString(e.item.Key)) && w.matches(e) {
			out = append(out, e.replayed(compacted))
		}
	}
	return out
}

// stage adds an event of the batch being published. Callers hold hub.mu, and call offer once the whole batch is staged.
func (w *watcher) stage(e *event) {
	if !w.synced || e.revision() < w.next || !w.matches(e) {
		return
	}
	if len(w.staged) == 0 {
		h := w.stream.hub
		h.staging = append(h.staging, w)
	}
	w.staged = append(w.staged, e)
}

// offer queues the staged events all at once: a consumer that received part of a revision would split it over two
// responses. If they do not fit beside what the consumer has not received yet, the watch falls behind, from this batch
// on. Callers hold hub.mu.
func (w *watcher) offer() {
	st := w.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(w.pending) > 0 && w.bytes+sizeOfEvents(w.staged) > st.hub.cfg.WatcherBytes {
		w.next = w.staged[0].revision()
		w.fallBehind()
	} else {
		w.push(w.staged)
	}
	clear(w.staged)
	if w.staged = w.staged[:0]; cap(w.staged) > stagedCapacity {
		w.staged = nil
	}
}

// push adds events to pending. Callers hold the stream's mu.
func (w *watcher) push(events []*event) {
	if len(events) == 0 {
		return
	}
	st := w.stream
	w.pending = append(w.pending, events...)
	var counted, bytes int64
	for _, e := range events {
		if e.waiting.Add(1) == 1 {
			counted += e.bytes
		}
		counted += slotBytes
		bytes += e.bytes + slotBytes
	}
	st.hub.pending.Add(counted)
	w.bytes += bytes
	st.bytes += bytes
	if !w.ready {
		w.ready = true
		st.ready = append(st.ready, w)
	}
	st.signal()
}

// forget subtracts the bytes of events that are leaving pending, whether they were sent or not. Callers hold the
// stream's mu.
func (w *watcher) forget(events []*event) {
	var counted, bytes int64
	for _, e := range events {
		if e.waiting.Add(-1) == 0 {
			counted += e.bytes
		}
		counted += slotBytes
		bytes += e.bytes + slotBytes
	}
	w.stream.hub.pending.Add(-counted)
	w.bytes -= bytes
	w.stream.bytes -= bytes
}

// sentFirst removes the first n events from pending: they are in a response. Callers hold the stream's mu.
func (w *watcher) sentFirst(n int) {
	w.sending, w.sent = 0, true
	last := w.pending[n-1].revision()
	w.forget(w.pending[:n])
	clear(w.pending[:n]) // the array may stay in use
	if w.pending = w.pending[n:]; len(w.pending) == 0 {
		w.pending = nil
		w.listUnsynced()
	}
	w.arrive(last)
}

// arrive removes the watch from the stream's behind set once the client has received everything it had missed, and says
// so if the watch asked for it. sent is the last revision that was sent, if any. Callers hold the stream's mu.
func (w *watcher) arrive(sent int64) {
	if !w.synced || w.firstUnsent() <= w.joined {
		return
	}
	delete(w.stream.behind, w)
	if w.req.CaughtUp {
		w.req.CaughtUp = false
		w.stream.answer(&Response{ID: w.req.ID, Revision: max(w.next-1, sent)})
	}
}

// firstUnsent returns the first revision that the client may not have had: events read by catching up may still wait
// for it. Callers hold the stream's mu.
func (w *watcher) firstUnsent() int64 {
	if len(w.pending) > 0 {
		return w.pending[0].revision()
	}
	return w.next
}

// join queues what the window has from w.next on and makes the watch synced. It returns false if the window starts
// later, or has too much to examine while nothing is published, or the stream has no capacity for it. Callers hold
// hub.mu and the stream's mu.
func (w *watcher) join() bool {
	h, st := w.stream.hub, w.stream
	if w.next <= h.rev {
		if w.next < h.window.first {
			return false
		}
		events := h.window.from(w.next)
		if len(events) > joinEvents {
			return false
		}
		wanted := w.matching(events, w.next, h.compacted)
		if len(wanted) > 0 && st.bytes > 0 && st.bytes+sizeOfEvents(wanted) > h.streamBytes() {
			return false
		}
		w.push(wanted)
		w.next = h.rev + 1
	}
	w.synced, w.joined = true, h.rev
	w.arrive(0)
	return true
}

// fallBehind makes the watch catch up from next on. Callers hold hub.mu and the stream's mu.
func (w *watcher) fallBehind() {
	w.synced = false
	if _, is := w.stream.behind[w]; !is {
		w.stream.behind[w] = time.Now()
	}
	w.listUnsynced()
	w.stream.signal()
}

// listUnsynced adds the watch to the unsynced ones if it is behind and has nothing pending. Callers hold the stream's
// mu.
func (w *watcher) listUnsynced() {
	if !w.synced && !w.ended && len(w.pending) == 0 {
		w.stream.unsynced = append(w.stream.unsynced, w)
	}
}
