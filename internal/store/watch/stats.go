package watch

import "time"

// Stats describes the watches of a store, for metrics.
type Stats struct {
	Streams, Watches int
	Slow             int   // watches that are catching up
	Pending          int   // events that wait to be sent
	PendingBytes     int64 // of the pending events; an event pending for several watches counts once
	Lag              int64 // revisions that the client of the watch furthest behind has yet to receive
	WindowBytes      int64
}

// Stats counts the streams and watches, and what they hold.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := Stats{Streams: len(h.streams), WindowBytes: h.window.bytes, PendingBytes: h.pending.Load()}
	for st := range h.streams {
		st.mu.Lock()
		for _, w := range st.watches {
			out.Watches++
			out.Pending += len(w.pending)
		}
		out.Slow += len(st.behind)
		for w := range st.behind {
			out.Lag = max(out.Lag, h.rev+1-w.firstUnsent())
		}
		st.mu.Unlock()
	}
	return out
}

// Lag is how far watches are behind the published revision.
type Lag struct {
	// Watches counts the watches that have been behind for at least the threshold: they have been catching up without a
	// break, or their client has received nothing although events are pending for it.
	Watches int
	// Longest is how long the watch that has been behind for the longest time has been behind, whatever the threshold.
	Longest time.Duration
	// Revisions is how many revisions the client of the watch furthest behind has yet to receive, among the watches
	// that are catching up.
	Revisions int64
}

// consumption is what the last call of Lag saw of a stream that had events pending. Guarded by the stream's mu.
type consumption struct {
	responses uint64
	since     time.Time // zero: nothing was pending
}

// Lag measures how far the watches are behind, and counts those that have been behind for at least threshold. It
// notices that a client receives nothing only by comparing two calls, so call it about once a second. It examines each
// stream and at each watch that is catching up, and nothing is published while it does.
func (h *Hub) Lag(threshold time.Duration) Lag {
	now := time.Now()
	out := Lag{}
	behind := func(watches int, since time.Time) {
		d := now.Sub(since)
		out.Longest = max(out.Longest, d)
		if d >= threshold {
			out.Watches += watches
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for st := range h.streams {
		st.mu.Lock()
		for w, since := range st.behind {
			behind(1, since)
			out.Revisions = max(out.Revisions, h.rev+1-w.firstUnsent())
		}
		waiting, inStep := st.waiting()
		switch {
		case waiting == 0:
			st.sample.since = time.Time{}
		case st.sample.since.IsZero() || st.sample.responses != st.responses:
			st.sample = consumption{st.responses, now}
		default:
			behind(inStep, st.sample.since) // the watches catching up are counted above
		}
		st.mu.Unlock()
	}
	return out
}

// waiting counts the watches with events pending for the client, and those of them that are not catching up. A watch
// that ended with pending events stays in the list until the client receives something. Callers hold mu.
func (st *Stream) waiting() (all, inStep int) {
	for _, w := range st.ready {
		if len(w.pending) == 0 {
			continue
		}
		all++
		if _, behind := st.behind[w]; !behind {
			inStep++
		}
	}
	return all, inStep
}
