package watch

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/store/index"
)

// Hub hands committed events to watches. Nobody waits for a slow watch: one that lags too far becomes unsynced, and
// catches up from the window or the history as its consumer asks for it.
//
// How it keeps the order: under mu, a batch goes to every synced watch of every stream before rev advances. So a holder
// of mu that finds a stream's watches synced and drained may report to the stream that it has seen everything up to
// rev.
type Hub struct {
	cfg    Config
	ctx    context.Context // for its reads
	outage loglimit.Outage // of its reads

	mu        sync.Mutex // locked before any stream's mu
	rev       int64      // everything up to it is published
	compacted int64
	epoch     int64 // of rev
	window    window
	streams   map[*Stream]struct{}
	keys      map[string]watchers // watches of single keys
	ranges    *ranges             // watches of ranges
	asking    []*Stream           // streams whose progress response waits for a publication
	staging   []*watcher          // watches for which the batch being published has events
	queue     []*Stream           // streams that need what their watches have missed, in turn
	readers   int                 // goroutines that read for the queue
	pending   atomic.Int64        // bytes of pending events; an event pending for several watches counts once
	closed    bool
}

type watchers map[*watcher]struct{}

// New returns a hub that starts after the clock's revision. It reads until ctx ends.
func New(ctx context.Context, clock backend.Clock, cfg Config) *Hub {
	return &Hub{
		cfg: cfg, ctx: ctx, rev: clock.Revision, compacted: clock.Compacted, epoch: clock.Epoch,
		window:  window{max: cfg.WindowBytes, first: clock.Revision + 1},
		streams: map[*Stream]struct{}{},
		keys:    map[string]watchers{},
		ranges:  newRanges(),
	}
}

// Publish delivers the rows of one committed batch, which ends at revision rev. prevs has the row that each of them
// superseded, nil for none. compacted is the clock's compacted revision, 0 if it has not moved. Calls must come in
// revision order.
func (h *Hub) Publish(rows, prevs []*index.Item, rev, compacted int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range rows {
		e := newEvent(rows[i], prevs[i])
		h.window.add(e)
		for w := range h.keys[index.KeyString(e.item.Key)] {
			w.stage(e)
		}
		h.ranges.stage(e)
	}
	for i, w := range h.staging {
		w.offer()
		h.staging[i] = nil
	}
	h.staging = h.staging[:0]
	h.evict()
	h.window.trim()
	h.rev = max(h.rev, rev)
	h.compacted = max(h.compacted, compacted)
	for i, st := range h.asking {
		st.signal()
		h.asking[i] = nil
	}
	h.asking = h.asking[:0]
}

// Reset moves the hub to the clock. Everything published up to there is in the database only. Watches catch up from it,
// unless their history is lost: then they are canceled like watches whose events are compacted, so that their clients
// list again.
func (h *Hub) Reset(clock backend.Clock, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	published := h.rev
	h.rev, h.compacted, h.epoch = clock.Revision, clock.Compacted, clock.Epoch
	h.window = window{max: h.window.max, first: h.rev + 1}
	for st := range h.streams {
		st.mu.Lock()
		for _, w := range st.watches {
			h.unsync(w, published, lost)
		}
		if lost {
			st.progress, st.target = false, 0 // its revision is lost; the client asks again
		}
		st.signal()
		st.mu.Unlock()
	}
}

// unsync makes a watch continue after a reset. The watch has had everything up to published if it is synced. Callers
// hold mu and the stream's mu.
func (h *Hub) unsync(w *watcher, published int64, lost bool) {
	if w.synced {
		w.next = max(w.next, published+1)
	}
	switch {
	case lost:
		w.stream.cancelCompacted(w, max(1, h.rev, w.next))
	case w.next < h.compacted:
		w.stream.cancelCompacted(w, h.compacted)
	case w.synced && w.next <= h.rev:
		w.fallBehind()
	}
}

// add registers a watch for future events. Callers hold mu.
func (h *Hub) add(w *watcher) {
	if w.span.Single {
		set := h.keys[w.span.Start]
		if set == nil {
			set = watchers{}
			h.keys[w.span.Start] = set
		}
		set[w] = struct{}{}
		return
	}
	h.ranges.add(w)
}

// remove undoes add. Callers hold mu.
func (h *Hub) remove(w *watcher) {
	if w.span.Single {
		delete(h.keys[w.span.Start], w)
		if len(h.keys[w.span.Start]) == 0 {
			delete(h.keys, w.span.Start)
		}
		return
	}
	h.ranges.remove(w)
}

// Close closes all streams. Streams opened later are closed from the start.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	streams := make([]*Stream, 0, len(h.streams))
	for st := range h.streams {
		streams = append(streams, st)
	}
	h.mu.Unlock()
	for _, st := range streams {
		st.Close()
	}
}
