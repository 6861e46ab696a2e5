package watch

import (
	"slices"
	"time"
)

// streamBytes bounds the bytes that watches catching up queue for one stream before its consumer receives them. A
// single revision may exceed it.
const streamBytes = 2 << 20

// streamBytes returns the constant, or an eighth of [Config.WatchBytes] if that is less.
func (h *Hub) streamBytes() int64 { return min(streamBytes, h.cfg.WatchBytes/8) }

// evict keeps the events pending for all watches within [Config.WatchBytes]. Above it, it drops the pending events of
// the clients that have received nothing for the longest time, until a quarter of the bound is free. Those watches read
// the events again when their consumers poll. Callers hold mu.
func (h *Hub) evict() {
	if h.pending.Load() <= h.cfg.WatchBytes {
		return
	}
	for _, st := range h.idlest() {
		if h.pending.Load() <= h.cfg.WatchBytes/4*3 {
			return
		}
		st.mu.Lock()
		if !st.polling { // otherwise its consumer is about to receive something
			for _, w := range st.ready {
				w.evict()
			}
		}
		st.mu.Unlock()
	}
}

// evict drops the pending events that are not in a response yet: the watch falls behind from there on. Callers hold
// hub.mu and the stream's mu.
func (w *watcher) evict() {
	rest := w.pending[w.sending:]
	if len(rest) == 0 {
		return
	}
	w.forget(rest)
	w.next = rest[0].revision()
	w.pending = slices.Clone(w.pending[:w.sending])
	w.fallBehind()
}

// idlest returns the streams with pending events, ordered by how long their clients have received nothing, longest
// first. Callers hold mu.
func (h *Hub) idlest() []*Stream {
	type idle struct {
		*Stream
		since time.Time
	}
	var all []idle
	for st := range h.streams {
		st.mu.Lock()
		if st.bytes > 0 && !st.polling {
			all = append(all, idle{st, st.since})
		}
		st.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b idle) int { return a.since.Compare(b.since) })
	out := make([]*Stream, len(all))
	for i := range all {
		out[i] = all[i].Stream
	}
	return out
}
