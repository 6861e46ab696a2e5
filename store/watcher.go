package store

import (
	"errors"
	"time"

	"go.etcd.io/etcd/pkg/v3/adt"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// responseEvents and responseBytes bound one response, but for a revision that is larger by itself.
	responseEvents = 1000
	responseBytes  = 1 << 20
	// catchUpRetry is how long a watch waits before it asks a database again that failed.
	catchUpRetry = 200 * time.Millisecond
)

// watcher is one watch. It is synced while the hub hands it every event as it is published; else it catches up, from next
// on, in a goroutine of its own. Guarded by its stream's mu; synced and next change only under hub.mu as well.
type watcher struct {
	stream *WatchStream
	req    WatchRequest
	span   span

	synced  bool
	next    int64 // the first revision that pending has not had
	pending []*event
	bytes   int64
	ready   bool // in the stream's list of watches with something pending
	sent    bool // events since the last progress tick
	told    bool // a progress response waits to be sent

	drained chan struct{} // capacity 1: pending was emptied
	gone    chan struct{} // closed when the watch has ended
}

func (w *watcher) interval() adt.Interval {
	if w.span.open {
		return adt.NewBytesAffineInterval([]byte(w.span.start), []byte{})
	}
	return adt.NewBytesAffineInterval([]byte(w.span.start), []byte(w.span.end))
}

func (w *watcher) wants(e *event) bool {
	if e.item.Deleted {
		return !w.req.NoDelete
	}
	return !w.req.NoPut
}

// offer takes an event as it is published. Callers hold hub.mu.
func (w *watcher) offer(e *event) {
	rev := e.item.ModRevision
	st := w.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if !w.synced || rev < w.next || !w.wants(e) {
		return
	}
	w.push(e)
	if w.bytes <= st.store.cfg.WatcherBytes {
		return
	}
	// Too slow: what is queued stays, but for this revision's events, which come again with the rest of it.
	for n := len(w.pending); n > 0 && w.pending[n-1].item.ModRevision == rev; n-- {
		w.bytes -= w.pending[n-1].cost()
		w.pending[n-1] = nil
		w.pending = w.pending[:n-1]
	}
	w.synced, w.next = false, rev
	go w.catchUp()
}

// push queues an event. Callers hold the stream's mu.
func (w *watcher) push(e *event) {
	w.pending = append(w.pending, e)
	w.bytes += e.cost()
	if !w.ready {
		w.ready = true
		w.stream.ready = append(w.stream.ready, w)
	}
	w.stream.signal()
}

// pop takes the next response's events: whole revisions, within the bounds of a response. Callers hold the stream's mu.
func (w *watcher) pop() []*event {
	n, bytes := 0, int64(0)
	for n < len(w.pending) {
		rev := w.pending[n].item.ModRevision
		if n > 0 && (n >= responseEvents || bytes >= responseBytes) {
			break
		}
		for n < len(w.pending) && w.pending[n].item.ModRevision == rev {
			bytes += w.pending[n].cost()
			n++
		}
	}
	out := w.pending[:n:n]
	w.pending = w.pending[n:]
	w.bytes -= bytes
	if len(w.pending) == 0 {
		w.pending = nil
		select {
		case w.drained <- struct{}{}:
		default:
		}
	}
	w.sent = true
	return out
}

// join takes what the window has from w.next on and makes the watch synced; false when the window begins later or holds more
// than the watch may queue. Callers hold hub.mu and the stream's mu.
func (w *watcher) join() bool {
	h := w.stream.store.hub
	if w.next < h.window.first {
		return false
	}
	limit := w.stream.store.cfg.WatcherBytes
	events := h.window.from(w.next)
	for i, e := range events {
		rev := e.item.ModRevision
		if w.bytes > limit/2 && i > 0 && events[i-1].item.ModRevision != rev {
			w.next = rev
			return false
		}
		if w.span.contains(keyString(e.item.Key)) && w.wants(e) {
			w.push(e)
		}
	}
	w.next = max(w.next, h.rev+1)
	w.synced = true
	return true
}

// catchUp brings an unsynced watch up to the hub: a chunk at a time from the window or the database, never more than the
// client has taken.
func (w *watcher) catchUp() {
	for {
		if !w.waitDrained() {
			return
		}
		h, st := w.stream.store.hub, w.stream
		h.mu.Lock()
		st.mu.Lock()
		done := w.synced || w.ended() || w.join()
		compacted := !done && w.next < h.compacted
		if compacted {
			st.cancelCompacted(w, h.compacted)
			done = true
		}
		next, until, inWindow := w.next, h.rev, w.next >= h.window.first
		st.mu.Unlock()
		h.mu.Unlock()
		if done {
			return
		}
		if inWindow {
			continue
		}
		select {
		case h.reads <- struct{}{}:
		case <-w.gone:
			return
		}
		events, through, err := w.readHistory(next, until)
		<-h.reads
		switch {
		case errors.Is(err, ErrCompacted):
			continue // the hub hears of it in a moment, and the watch is canceled above
		case err != nil:
			st.store.cfg.Logger.Warn("watch cannot catch up yet", "error", err)
			select {
			case <-w.gone:
				return
			case <-time.After(catchUpRetry):
			}
			continue
		}
		h.mu.Lock()
		st.mu.Lock()
		if !w.ended() {
			for _, e := range events {
				if w.wants(e) {
					w.push(e)
				}
			}
			w.next = through + 1
		}
		st.mu.Unlock()
		h.mu.Unlock()
	}
}

func (w *watcher) ended() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// waitDrained waits until nothing is pending; false when the watch has ended.
func (w *watcher) waitDrained() bool {
	for {
		w.stream.mu.Lock()
		empty := len(w.pending) == 0
		w.stream.mu.Unlock()
		if empty {
			return !w.ended()
		}
		select {
		case <-w.drained:
		case <-w.gone:
			return false
		}
	}
}

// readHistory reads a chunk of the watch's events from the database.
func (w *watcher) readHistory(next, until int64) (events []*event, through int64, err error) {
	s := w.stream.store
	hist, err := s.backend.History(s.ctx, backend.HistoryQuery{
		After: next - 1, Until: until, Span: w.span.backend(), Limit: responseEvents, WithPrev: w.req.PrevKV,
	})
	if err != nil {
		return nil, 0, err
	}
	if next < hist.Clock.Compacted {
		return nil, 0, ErrCompacted
	}
	events = make([]*event, len(hist.Changes))
	for i := range hist.Changes {
		c := &hist.Changes[i]
		events[i] = &event{item: newItem(c.Row)}
		if c.Prev != nil {
			events[i].prev = newItem(*c.Prev)
		}
	}
	return events, hist.Through, nil
}
