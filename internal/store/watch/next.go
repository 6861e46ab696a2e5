package watch

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Next waits for the next response to send and returns it. Errors: ctx's, [ErrClosed], those of reading superseded
// rows.
func (st *Stream) Next(ctx context.Context) (*Response, error) {
	for {
		r, w, events := st.dequeue()
		if w != nil {
			if err := st.fill(ctx, r, w, events); err != nil {
				return nil, err
			}
			st.finishEvents(w, r)
		}
		if r == nil {
			r = st.progressResponse()
		}
		if r != nil {
			return r, nil
		}
		select {
		case <-st.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-st.closed:
			return nil, ErrClosed
		}
	}
}

// dequeue returns a control response, or the next watch with pending events and the events of its next response, which
// must be filled. If there is neither, the consumer waits. If watches have missed events, dequeue makes the hub read
// them.
func (st *Stream) dequeue() (r *Response, w *watcher, events []*event) {
	st.mu.Lock()
	if r = st.dequeueControl(); r == nil {
		r, w, events = st.startEvents()
	}
	st.polling = r == nil
	wants := st.needsEvents()
	st.mu.Unlock()
	if wants {
		st.hub.requestEvents(st)
	}
	return r, w, events
}

// dequeueControl returns the next response that goes before events. Callers hold mu.
func (st *Stream) dequeueControl() *Response {
	if len(st.control) == 0 {
		return nil
	}
	r := st.control[0]
	st.control[0] = nil
	if st.control = st.control[1:]; len(st.control) == 0 {
		st.control = nil
	}
	if len(st.control) < controlMax {
		select {
		case st.capacity <- struct{}{}:
		default:
		}
	}
	if w := st.watches[r.ID]; w != nil {
		w.notify = false
	}
	return r
}

// startEvents starts the response of the next watch with pending events: whole revisions, within the bounds of a
// response. The events stay pending until the response is filled. Callers hold mu.
func (st *Stream) startEvents() (*Response, *watcher, []*event) {
	for len(st.ready) > 0 {
		w := st.ready[0]
		if len(w.pending) == 0 {
			st.dequeueReady()
			continue
		}
		events := firstRevisions(w.pending, responseEvents, responseBytes)
		w.sending = len(events)
		return &Response{ID: w.req.ID, Fragment: w.req.Fragment}, w, events
	}
	return nil, nil, nil
}

// dequeueReady removes the first of the watches with pending events. Callers hold mu.
func (st *Stream) dequeueReady() {
	st.ready[0].ready = false
	st.ready[0] = nil
	if len(st.ready) == 1 {
		st.ready = st.ready[:0] // the next one needs no new array
		return
	}
	st.ready = st.ready[1:]
}

// finishEvents finishes what startEvents started: events in the response are not pending any more.
func (st *Stream) finishEvents(w *watcher, r *Response) {
	n := len(r.Events)
	now := time.Now()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.responses++
	st.since = now
	r.Revision = r.Events[n-1].Row.ModRevision
	// As in etcd, what a watch has missed comes with the revision up to which it has caught up.
	if w.synced {
		r.Revision = max(r.Revision, w.joined)
	} else {
		r.Revision = max(r.Revision, st.hub.cfg.Revision())
	}
	st.dequeueReady()
	if w.ended {
		return // while the response was filled
	}
	w.sentFirst(n)
	if len(w.pending) > 0 {
		w.ready = true
		st.ready = append(st.ready, w)
	}
}

// fill turns events into the response's events, with the superseded rows if the watch asked for them. If those have to
// be read, it may use fewer events: as many as fill a response.
func (st *Stream) fill(ctx context.Context, r *Response, w *watcher, events []*event) error {
	r.Events = make([]Event, len(events))
	var ids []backend.RowID
	var at []int
	for i, e := range events {
		r.Events[i].Row = &e.item.Row
		if !w.req.PrevKV || e.prev == nil {
			continue
		}
		if e.prev.Cached() {
			r.Events[i].Prev = &e.prev.Row
			continue
		}
		ids, at = append(ids, e.prev.ID()), append(at, i)
	}
	for bytes := int64(0); len(ids) > 0; {
		rows, _, err := st.hub.cfg.History.Rows(ctx, ids, responseBytes)
		if err != nil || len(rows) == 0 {
			return fmt.Errorf("read %d superseded rows: %w", len(ids), cmp.Or(err, backend.ErrUnavailable))
		}
		for i := range rows {
			if events[at[i]].prev.Is(&rows[i]) { // otherwise it was compacted, or is of another history
				r.Events[at[i]].Prev = &rows[i]
			}
			bytes += rows[i].Size()
		}
		if ids, at = ids[len(rows):], at[len(rows):]; len(ids) == 0 || bytes < responseBytes {
			continue
		}
		whole := at[0]
		for whole > 0 && events[whole-1].revision() == events[whole].revision() {
			whole--
		}
		if whole > 0 {
			r.Events = r.Events[:whole]
			break
		}
	}
	if o := st.hub.cfg.Observer; o != nil {
		o.Events(len(r.Events))
	}
	return nil
}
