package watch

import "time"

// RequestProgress asks for one response with id -1 that follows every event up to its revision, which is at least that
// of any read answered before the request.
func (st *Stream) RequestProgress() {
	if st.hub.cfg.Confirm == nil {
		st.request()
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.asked = true
	if !st.confirming && !st.ended {
		st.confirming = st.hub.cfg.Start(st.confirm)
	}
}

// confirm asks the database for what others have written, once for the requests that have come, and again for those
// that come meanwhile: however many a client sends while the database hangs, one waits.
func (st *Stream) confirm() {
	for st.confirms() {
		if st.hub.cfg.Confirm(st.hub.ctx) == nil { // else silence: the client asks again
			st.request()
		}
	}
}

// confirms says whether a request waits that no question was asked for.
func (st *Stream) confirms() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.confirming = st.asked && !st.ended
	st.asked = false
	return st.confirming
}

// request has Next answer once what is published has reached the current revision. It is looked up under mu: a reset
// that loses it comes before, or forgets the request.
func (st *Stream) request() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.progress, st.target = true, max(st.target, st.hub.cfg.Revision())
	st.signal()
}

// takeProgress answers a manual request if every watch of the stream has had everything that is published.
func (st *Stream) takeProgress() *Response {
	st.mu.Lock()
	waits := st.progress
	st.mu.Unlock()
	if !waits {
		return nil
	}
	h := st.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	if h.rev < st.target {
		h.asking = append(h.asking, st) // publish wakes us
		return nil
	}
	if len(st.control)+len(st.ready) > 0 {
		st.signal()
		return nil
	}
	st.progress, st.target = false, 0
	if len(st.watches) == 0 {
		return nil
	}
	for _, w := range st.watches {
		if !w.synced || w.next > h.rev+1 {
			return nil // silence, as etcd's: the client asks again
		}
	}
	st.comes = false
	return &Response{ID: -1, Revision: h.rev}
}

// Run sends progress responses to idle watches until the hub's context ends.
func (h *Hub) Run() {
	tick := time.NewTicker(h.cfg.ProgressInterval)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
			h.mu.Lock()
			for st := range h.streams {
				st.tick(h.rev)
			}
			h.mu.Unlock()
		}
	}
}

// tick queues progress responses for watches that asked for them and had no events since the last tick. Callers hold
// hub.mu.
func (st *Stream) tick(rev int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, w := range st.watches {
		if !w.req.ProgressNotify {
			continue
		}
		if w.sent {
			w.sent = false
			continue
		}
		if w.synced && len(w.pending) == 0 && w.next <= rev+1 && !w.notify {
			w.notify = true
			st.answer(&Response{ID: w.req.ID, Revision: rev})
		}
	}
}
