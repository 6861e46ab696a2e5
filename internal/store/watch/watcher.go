package watch

import (
	"time"

	"go.etcd.io/etcd/pkg/v3/adt"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

const (
	// responseEvents and responseBytes bound one response, but for a revision that is larger by itself.
	responseEvents = 1000
	responseBytes  = 256 << 10
	// slotBytes is what an event's place among those that wait for a watch takes.
	slotBytes = 16
	// stagedKept bounds the room for the events of a batch that a watch keeps for the next one.
	stagedKept = 64
	// joinEvents bounds the events that a watch looks through, while nothing is published, to be synced.
	joinEvents = 256
)

// watcher is one watch. It is synced while the hub hands it every event as it is published; else it is behind, and gets
// what it misses, from next on, as its consumer asks for it (catchup.go). Guarded by its stream's mu; synced and next
// change only under hub.mu as well.
type watcher struct {
	stream *Stream
	req    Request
	span   index.Span

	synced  bool
	ended   bool
	next    int64 // the first revision that pending has not had
	joined  int64 // the hub's when the watch was synced
	pending []*event
	sending int      // so many of pending are in the response under way
	bytes   int64    // of pending
	chunk   int      // rows that catching up reads at a time
	staged  []*event // of the batch being published; guarded by hub.mu
	ready   bool     // in the stream's list of watches with something pending
	sent    bool     // events since the last progress tick
	notify  bool     // a progress response waits to be sent
}

func (w *watcher) interval() adt.Interval {
	if w.span.Open {
		return adt.NewBytesAffineInterval([]byte(w.span.Start), []byte{})
	}
	return adt.NewBytesAffineInterval([]byte(w.span.Start), []byte(w.span.End))
}

func (w *watcher) wants(e *event) bool {
	if e.item.Deleted {
		return !w.req.NoDelete
	}
	return !w.req.NoPut
}

// wanted returns those of the events from revision next on that the watch wants, without the superseded rows that are
// compacted.
func (w *watcher) wanted(events []*event, next, compacted int64) []*event {
	var out []*event
	for _, e := range events {
		if e.revision() >= next && w.span.Contains(index.KeyString(e.item.Key)) && w.wants(e) {
			out = append(out, e.replayed(compacted))
		}
	}
	return out
}

// stage takes an event of the batch being published. Callers hold hub.mu, and call offer when they have staged the
// batch.
func (w *watcher) stage(e *event) {
	if !w.synced || e.revision() < w.next || !w.wants(e) {
		return
	}
	if len(w.staged) == 0 {
		h := w.stream.hub
		h.staging = append(h.staging, w)
	}
	w.staged = append(w.staged, e)
}

// offer queues what was staged, all at once: a consumer that took part of a revision would split it over two responses.
// If that is too much for what the consumer has not taken yet, the watch falls behind, from the batch on. Callers hold
// hub.mu.
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
	if w.staged = w.staged[:0]; cap(w.staged) > stagedKept {
		w.staged = nil
	}
}

// push queues events. Callers hold the stream's mu.
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

// forget uncounts events that are pending no more, whether they were sent or not. Callers hold the stream's mu.
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

// sentFirst takes the first n events off, which are in a response. Callers hold the stream's mu.
func (w *watcher) sentFirst(n int) {
	w.sending, w.sent = 0, true
	w.forget(w.pending[:n])
	clear(w.pending[:n]) // the array may live on
	if w.pending = w.pending[n:]; len(w.pending) == 0 {
		w.pending = nil
		w.listUnsynced()
	}
	w.arrive()
}

// arrive ends being behind once the client has taken what the watch has missed. Callers hold the stream's mu.
func (w *watcher) arrive() {
	if w.synced && w.untaken() > w.joined {
		delete(w.stream.behind, w)
	}
}

// untaken is the first revision that the client may not have had: what catching up has read is still ahead of it.
// Callers hold the stream's mu.
func (w *watcher) untaken() int64 {
	if len(w.pending) > 0 {
		return w.pending[0].revision()
	}
	return w.next
}

// join takes what the window has from w.next on and makes the watch synced; false when the window begins later, or has
// too much for the moment that nothing is published in. Callers hold hub.mu and the stream's mu.
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
		wanted := w.wanted(events, w.next, h.compacted)
		if len(wanted) > 0 && st.bytes > 0 && st.bytes+sizeOfEvents(wanted) > h.streamBytes() {
			return false
		}
		w.push(wanted)
		w.next = h.rev + 1
	}
	w.synced, w.joined = true, h.rev
	w.arrive()
	return true
}

// fallBehind has the watch catch up from next on. Callers hold hub.mu and the stream's mu.
func (w *watcher) fallBehind() {
	w.synced = false
	if _, is := w.stream.behind[w]; !is {
		w.stream.behind[w] = time.Now()
	}
	w.listUnsynced()
	w.stream.signal()
}

// listUnsynced lists the watch as one that can be given more, if it is. Callers hold the stream's mu.
func (w *watcher) listUnsynced() {
	if !w.synced && !w.ended && len(w.pending) == 0 {
		w.stream.unsynced = append(w.stream.unsynced, w)
	}
}
