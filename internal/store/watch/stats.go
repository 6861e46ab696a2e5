package watch

import "time"

// Stats describes the watches of a store, for metrics.
type Stats struct {
	Streams, Watches int
	Slow             int   // those catching up
	Pending          int   // events waiting to be sent
	PendingBytes     int64 // what they take, an event that several watches wait for counted once
	Lag              int64 // revisions that the client of the one furthest behind has still to take
	WindowBytes      int64
}

// Stats counts the streams and watches.
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
			out.Lag = max(out.Lag, h.rev+1-w.untaken())
		}
		st.mu.Unlock()
	}
	return out
}

// Lag is how far watches are behind what was published.
type Lag struct {
	// Watches counts those that have been behind for as long as was asked about: they have been catching up without a
	// break, or their client has taken nothing though something waits for it.
	Watches int
	// Longest is how long the one that is behind for the longest time has been, whatever was asked about.
	Longest time.Duration
	// Revisions is how many the client of the one furthest behind of those that catch up has still to take.
	Revisions int64
}

// consumption is what the last look saw of a stream that had events waiting. Guarded by the stream's mu.
type consumption struct {
	taken uint64
	since time.Time // zero: nothing was waiting
}

// Lag looks how far the watches are behind, and counts those that have been for at least threshold. What a client does
// not take is noticed by looking again: call it about once a second. It costs a look at each stream and at each watch
// that catches up, while nothing is published.
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
			out.Revisions = max(out.Revisions, h.rev+1-w.untaken())
		}
		waiting, inStep := st.waiting()
		switch {
		case waiting == 0:
			st.look.since = time.Time{}
		case st.look.since.IsZero() || st.look.taken != st.taken:
			st.look = consumption{st.taken, now}
		default:
			behind(inStep, st.look.since) // the others are counted above
		}
		st.mu.Unlock()
	}
	return out
}

// waiting counts the watches that have events for the client, and those of them that are in step. One that ended with
// events stays in the list until the client comes by. Callers hold mu.
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
