package store

import (
	"context"
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
	chunk   int      // rows that catching up reads at a time
	staged  []*event // of the batch being published; guarded by hub.mu
	ready   bool     // in the stream's list of watches with something pending
	sent    bool     // events since the last progress tick
	told    bool     // a progress response waits to be sent

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

// stage takes an event of the batch being published. Callers hold hub.mu, and call offer when they have staged the batch.
func (w *watcher) stage(e *event) {
	if !w.synced || e.item.ModRevision < w.next || !w.wants(e) {
		return
	}
	if len(w.staged) == 0 {
		h := w.stream.store.hub
		h.staging = append(h.staging, w)
	}
	w.staged = append(w.staged, e)
}

// offer queues what was staged, all at once: a consumer that took part of a revision would split it over two responses. If
// that is too much for what the consumer has not taken yet, the watch falls back to catching up, from the batch on. Callers
// hold hub.mu.
func (w *watcher) offer() {
	var bytes int64
	for _, e := range w.staged {
		bytes += e.cost()
	}
	st := w.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(w.pending) > 0 && w.bytes+bytes > st.store.cfg.WatcherBytes {
		w.next = w.staged[0].item.ModRevision
		w.fallBehind()
	} else {
		w.push(w.staged, bytes)
	}
	clear(w.staged)
	w.staged = w.staged[:0]
}

// push queues events. Callers hold the stream's mu.
func (w *watcher) push(events []*event, bytes int64) {
	if len(events) == 0 {
		return
	}
	w.pending = append(w.pending, events...)
	w.bytes += bytes
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
	limit := w.stream.store.cfg.WatcherBytes / 2
	events := h.window.from(w.next)
	var wanted []*event
	var bytes int64
	full := false
	for i, e := range events {
		rev := e.item.ModRevision
		if full = w.bytes+bytes > limit && i > 0 && events[i-1].item.ModRevision != rev; full {
			w.next = rev
			break
		}
		if w.span.contains(keyString(e.item.Key)) && w.wants(e) {
			e = e.replayed(h.compacted)
			wanted = append(wanted, e)
			bytes += e.cost()
		}
	}
	w.push(wanted, bytes)
	if full {
		return false
	}
	w.next = max(w.next, h.rev+1)
	w.synced = true
	delete(h.trailing, w)
	return true
}

// fallBehind makes the watch catch up from next on. Callers hold hub.mu and the stream's mu.
func (w *watcher) fallBehind() {
	s := w.stream.store
	w.synced = false
	s.hub.trailing[w] = time.Now()
	s.wg.Go(w.catchUp)
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
		events, bytes, through, err := w.readHistory(next, until)
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
			w.push(events, bytes)
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

// readHistory reads a chunk of the watch's events from the database: those wanted of [next, through], and their cost.
func (w *watcher) readHistory(next, until int64) (events []*event, bytes, through int64, err error) {
	s := w.stream.store
	hist, err := s.backend.History(s.ctx, backend.HistoryQuery{
		After: next - 1, Until: until, Span: w.span.backend(), Limit: w.chunk, Bytes: chunkBytes, WithPrev: w.req.PrevKV,
	})
	if err != nil {
		w.chunk = max(w.chunk/2, 1) // it may have been more than comes in time
		return nil, 0, 0, err
	}
	if next < hist.Clock.Compacted {
		return nil, 0, 0, ErrCompacted
	}
	events = make([]*event, 0, len(hist.Changes))
	total := int64(0)
	for i := range hist.Changes {
		c := &hist.Changes[i]
		e := &event{item: newItem(c.Row)}
		if c.Prev != nil && c.Row.ModRevision > hist.Clock.Compacted {
			if e.prev, err = s.before(s.ctx, c); err != nil {
				return nil, 0, 0, err
			}
		}
		total += e.cost()
		if w.wants(e) {
			events = append(events, e)
			bytes += e.cost()
		}
	}
	w.chunk = fitChunk(w.chunk, len(hist.Changes), total, responseEvents)
	return events, bytes, hist.Through, nil
}

// before returns what watchers are shown as superseded by c: the key's live row before c's revision, which is another than
// c.Prev where a transaction changed the key twice. Nil when there was none, or it is compacted.
func (s *Store) before(ctx context.Context, c *backend.Change) (*item, error) {
	if c.Prev.ModRevision != c.Row.ModRevision {
		return newItem(*c.Prev), nil
	}
	rows, clock, err := s.backend.Range(ctx, backend.RangeQuery{
		Span: backend.Span{Start: c.Row.Key}, Revision: c.Row.ModRevision - 1, Limit: 1,
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || c.Row.ModRevision-1 < clock.Compacted {
		return nil, nil
	}
	return newItem(rows[0]), nil
}
