package watch

import (
	"slices"
	"time"
)

// streamBytes bounds what watches that catch up are given of a stream that has not taken it, but for one revision.
const streamBytes = 2 << 20

// streamBytes is the constant, less where all watches together may have little.
func (h *Hub) streamBytes() int64 { return min(streamBytes, h.cfg.WatchBytes/8) }

// takeBack keeps what all watches hold below its bound: it takes back what waits for those clients that have taken
// nothing for the longest time, a quarter more than it must. They are given it again when they come for it. Callers
// hold mu.
func (h *Hub) takeBack() {
	if h.pending.Load() <= h.cfg.WatchBytes {
		return
	}
	for _, st := range h.idlest() {
		if h.pending.Load() <= h.cfg.WatchBytes/4*3 {
			return
		}
		st.mu.Lock()
		if !st.comes { // else its consumer is about to take something
			for _, w := range st.ready {
				w.takeBack()
			}
		}
		st.mu.Unlock()
	}
}

// takeBack drops what is pending and in no response yet: the watch falls behind by it. Callers hold hub.mu and the
// stream's mu.
func (w *watcher) takeBack() {
	rest := w.pending[w.sending:]
	if len(rest) == 0 {
		return
	}
	w.forget(rest)
	w.next = rest[0].revision()
	w.pending = slices.Clone(w.pending[:w.sending])
	w.fallBehind()
}

// idlest returns the streams that hold something, those first whose clients have taken nothing for the longest time.
// Callers hold mu.
func (h *Hub) idlest() []*Stream {
	type idle struct {
		*Stream
		since time.Time
	}
	var all []idle
	for st := range h.streams {
		st.mu.Lock()
		if st.bytes > 0 && !st.comes {
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
