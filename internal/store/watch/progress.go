package watch

import "time"

// RequestProgress asks for one progress response, with id -1. It follows every event up to its revision, which is at
// least the revision of any read answered before the request.
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

// confirm asks the database for what others have written: once for all requests so far, and again for those that arrive
// while it asks. So at most one confirmation waits, however many requests a client sends while the database hangs.
func (st *Stream) confirm() {
	for st.confirms() {
		if st.hub.cfg.Confirm(st.hub.ctx) == nil { // on an error there is no response: the client asks again
			st.request()
		}
	}
}

// confirms reports whether there are requests that no confirmation covers yet.
func (st *Stream) confirms() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.confirming = st.asked && !st.ended
	st.asked = false
	return st.confirming
}

// request makes Next answer once the published revision has reached the current one. The current revision is read under
// mu, so a reset that loses it either comes before or drops the request.
func (st *Stream) request() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.progress, st.target = true, max(st.target, st.hub.cfg.Revision())
	st.signal()
}

// progressResponse answers a manual progress request if every watch of the stream has had everything that is published.
func (st *Stream) progressResponse() *Response {
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
		h.asking = append(h.asking, st) // Publish wakes the stream
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
			return nil // no response, as in etcd: the client asks again
		}
	}
	st.polling = false
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

// tick queues progress responses for watches with progress notify that had no events since the last tick. Callers hold
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
