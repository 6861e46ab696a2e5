package store

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// Next returns what is to be sent next, and waits for it. Errors: ctx's, [ErrClosed], those of reading superseded rows.
func (st *WatchStream) Next(ctx context.Context) (*WatchResponse, error) {
	for {
		if r, w, events := st.take(); r != nil {
			if events != nil {
				if err := st.fill(ctx, r, w, events); err != nil {
					return nil, err
				}
			}
			return r, nil
		}
		if r := st.takeProgress(); r != nil {
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

// take returns a control response, or the next events of the next watch that has some.
func (st *WatchStream) take() (*WatchResponse, *watcher, []*event) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.control) > 0 {
		r := st.control[0]
		st.control[0] = nil
		if st.control = st.control[1:]; len(st.control) == 0 {
			st.control = nil
		}
		if len(st.control) < controlMax {
			select {
			case st.room <- struct{}{}:
			default:
			}
		}
		if w := st.watches[r.ID]; w != nil {
			w.told = false
		}
		return r, nil, nil
	}
	for len(st.ready) > 0 {
		w := st.ready[0]
		st.ready[0] = nil
		st.ready = st.ready[1:]
		w.ready = false
		if len(w.pending) == 0 {
			continue
		}
		events := w.pop()
		st.taken++
		if len(w.pending) > 0 {
			w.ready = true
			st.ready = append(st.ready, w)
		}
		rev := events[len(events)-1].item.ModRevision
		if !w.synced {
			rev = max(rev, st.store.Revision())
		}
		return &WatchResponse{ID: w.req.ID, Revision: rev, Fragment: w.req.Fragment}, w, events
	}
	return nil, nil, nil
}

// takeProgress answers a manual request if every watch of the stream has had everything that is published.
func (st *WatchStream) takeProgress() *WatchResponse {
	st.mu.Lock()
	waits := st.progress
	st.mu.Unlock()
	if !waits {
		return nil
	}
	h := st.store.hub
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
	return &WatchResponse{ID: -1, Revision: h.rev}
}

// fill turns events into the response's, with the superseded rows where asked for.
func (st *WatchStream) fill(ctx context.Context, r *WatchResponse, w *watcher, events []*event) error {
	r.Events = make([]Event, len(events))
	var ids []backend.RowID
	var at []int
	for i, e := range events {
		r.Events[i].Row = &e.item.Row
		if !w.req.PrevKV || e.prev == nil {
			continue
		}
		if e.prev.resident {
			r.Events[i].Prev = &e.prev.Row
			continue
		}
		ids, at = append(ids, e.prev.ID()), append(at, i)
	}
	if o := st.store.cfg.Observer; o != nil {
		o.Events(len(events))
	}
	if ids == nil {
		return nil
	}
	rows, _, err := st.store.backend.Rows(ctx, ids, 0)
	if err != nil {
		return fmt.Errorf("read %d superseded rows: %w", len(ids), err)
	}
	for i := range rows {
		if events[at[i]].prev.is(&rows[i]) { // else compacted meanwhile, or of another history
			r.Events[at[i]].Prev = &rows[i]
		}
	}
	return nil
}
