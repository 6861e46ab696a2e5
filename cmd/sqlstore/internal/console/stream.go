package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// mostStreams is how many streams of events the console sends at a time, and mostUnknown how many to those who have
	// not signed in, although authentication is enabled: they cannot use up those of the others.
	mostStreams = 32
	mostUnknown = 8
	// streamPing is how long a stream may be silent, and sendTimeout how long the browser may take to receive a part.
	streamPing  = 15 * time.Second
	sendTimeout = 30 * time.Second
)

// event is a server-sent event (HTML Living Standard, section 9.2).
type event struct {
	name string // of the listener in the page
	id   string // what the browser sends to continue after the event, "" to leave it as it is
	data any    // sent as JSON
}

// eventStream sends events to one browser.
type eventStream struct {
	w   http.ResponseWriter
	ctl *http.ResponseController

	mu  sync.Mutex // of what follows, and of sending
	out bytes.Buffer
}

// stream serves a pattern with a stream of events. follow sends them until it ends, or its request's context does: the
// browser has disconnected, or the server stops. An error that may pass ends the stream, and the page connects again.
// Any other becomes the event "failed", with a text, after which it must not.
func (c *Console) stream(pattern string, follow func(*http.Request, *eventStream) error) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.ContentLength != 0 { // a body would hold the end of the stream up
			http.Error(w, "a stream is for GET without a body", http.StatusBadRequest)
			return
		}
		slots := c.streams
		if c.stranger(r) {
			slots = c.unknown
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many pages are open: close some of them", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		s := &eventStream{w: w, ctl: http.NewResponseController(w)}
		var pings sync.WaitGroup
		pings.Go(func() { s.ping(ctx, cancel) })
		session := visitOf(r).session
		if session != nil {
			defer context.AfterFunc(session.Context(), cancel)()
			pings.Go(func() { c.stayWhile(ctx, r, session) })
		}
		defer pings.Wait()
		defer cancel()
		defer context.AfterFunc(c.stopping, cancel)()
		_ = s.ctl.SetReadDeadline(time.Time{}) // otherwise the request's own ends the stream
		w.Header().Set("Content-Type", "text/event-stream")
		err := follow(r.WithContext(ctx), s)
		if session != nil && session.Ended() && r.Context().Err() == nil && c.stopping.Err() == nil {
			_ = s.send(event{name: "failed", data: "Your session has ended."}) // likewise
			return
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, errUnsent) {
			return
		}
		f := c.asFailure(r, err)
		if f.Code >= http.StatusInternalServerError || f.Code == http.StatusTooManyRequests {
			return
		}
		_ = s.send(event{name: "failed", data: f.Words()}) // an error means that the browser has disconnected
	})
}

// errUnsent is returned if the browser does not receive what is sent.
var errUnsent = errors.New("the browser does not read the stream")

// ping keeps the connection open, and notices a browser that has gone without saying so.
func (s *eventStream) ping(ctx context.Context, cancel context.CancelFunc) {
	tick := time.NewTicker(streamPing)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.send(event{name: "ping"}) != nil {
				cancel()
				return
			}
		}
	}
}

// add appends an event to what flush sends.
func (s *eventStream) add(e event) error {
	data, err := json.Marshal(e.data)
	if err != nil {
		return fmt.Errorf("event %s: %w", e.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.id != "" {
		fmt.Fprintf(&s.out, "id: %s\n", e.id)
	}
	fmt.Fprintf(&s.out, "event: %s\ndata: %s\n\n", e.name, data)
	return nil
}

// flush sends the events that were added. Errors: errUnsent.
func (s *eventStream) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.ctl.SetWriteDeadline(time.Now().Add(sendTimeout)) // only a test has none
	_, err := s.w.Write(s.out.Bytes())
	if s.out.Reset(); err == nil {
		err = s.ctl.Flush()
	}
	if err != nil {
		return errors.Join(errUnsent, err)
	}
	return nil
}

// send sends one event.
func (s *eventStream) send(e event) error {
	if err := s.add(e); err != nil {
		return err
	}
	return s.flush()
}
