package watch

// Authorize ends the watches whose clients may no longer read what they watch. Call it after each change of users and
// roles, before anything committed later is published.
func (h *Hub) Authorize() {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.cfg.Auth()
	if !state.Enabled() {
		return
	}
	for st := range h.streams {
		st.mu.Lock()
		for _, w := range st.watches {
			key, end := w.keys()
			if err := state.CanWatch(w.req.As, key, end); err != nil {
				st.cancelFor(w, err)
			}
		}
		st.mu.Unlock()
	}
}

// keys returns the range that the watch was created with.
func (w *watcher) keys() (key, end []byte) {
	switch key = []byte(w.span.Start); {
	case w.span.Single:
		return key, nil
	case w.span.Open:
		return key, []byte{0}
	}
	return key, []byte(w.span.End)
}
