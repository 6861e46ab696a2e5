package semantics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"testing"
)

// marker is the object that is written once all watches have begun: what a watch sends before it is its beginning.
const marker = "item-marker"

// watch is a case, once it has begun.
type watch struct {
	Watch
	stream *Stream
	state  []Event // events before the marker was written, up to the end of the state
	err    error
}

func (w *watch) name() string {
	limit, more := "", ""
	if w.Limit {
		limit = ", limit"
	}
	if w.Continue {
		more = ", continue"
	}
	return fmt.Sprintf("version %s, match %q, sendInitialEvents %q, bookmarks %v%s%s", w.Version, w.Match, w.Initial,
		w.Bookmarks, limit, more)
}

func (h *history) watchURL(w *watch) string {
	q := url.Values{"watch": {"true"}}
	for key, value := range map[string]string{
		"resourceVersion": h.version(w.Version), "resourceVersionMatch": w.Match,
		"sendInitialEvents": w.Initial,
	} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if w.Bookmarks {
		q.Set("allowWatchBookmarks", "true")
	}
	if w.Continue {
		q.Set("continue", h.token)
	}
	if w.Limit {
		q.Set("limit", "1")
	}
	if w.Start == Nothing {
		q.Set("timeoutSeconds", "1") // otherwise it would wait forever
	}
	return h.List + "?" + q.Encode()
}

// watches begins every watch, writes the marker, and checks what each has sent up to it.
func (h *history) watches(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // ends the streams
	var all []*watch
	for _, w := range Watches() {
		if h.Kube != nil && w.KubeStart != "" {
			w.Start = w.KubeStart
		}
		if h.Kube == nil || w.Kube.Code != 0 {
			all = append(all, &watch{Watch: w})
		}
	}
	each(all, func(w *watch) (*Stream, error) {
		w.begin(ctx, h)
		return w.stream, w.err
	})
	before := h.current.items
	h.put(t, marker)
	for _, w := range all {
		t.Run(w.name(), func(t *testing.T) { h.checkWatch(t, w) })
	}
	cancel()
	h.delete(t, marker)
	h.current = h.look(t)
	if !slices.Equal(h.current.items, before) {
		t.Errorf("the state is %v, want %v again", h.current.items, before)
	}
}

// begin opens the watch. If its state has an end, begin reads up to that: a kube-apiserver without a watch cache lists
// the state after it has sent the header, and the state must not include the marker.
func (w *watch) begin(ctx context.Context, h *history) {
	w.stream, w.err = OpenWatch(ctx, h.Client, h.watchURL(w))
	if w.err == nil && w.EndBookmark {
		w.state, w.err = w.stream.until(func(e Event) bool { return e.End })
	}
}

func (h *history) checkWatch(t *testing.T, w *watch) {
	want := h.wants(w.Want, w.Kube, w.Cached)
	events, err := w.state, w.err
	if w.stream != nil {
		defer w.stream.Close()
		if err == nil {
			var more []Event
			more, err = w.stream.until(func(e Event) bool { return e.Name == marker })
			events = append(events, more...)
		}
		if f := asFailure(err); f != nil && (h.Kube == nil || !w.KubeEvent) {
			t.Fatalf("an ERROR event %v, want the code in the answer", f)
		}
	} else if h.Kube != nil && w.KubeEvent && want != ok {
		t.Fatalf("answered %v, want that as an ERROR event", err)
	}
	if w.Start == Nothing {
		if !errors.Is(err, io.EOF) || len(events) > 0 {
			t.Errorf("events %v, %v from a future version", events, err)
		}
		return
	}
	want.check(t, h.Kube, err)
	if err != nil || want != ok {
		return
	}
	events = events[:len(events)-1] // the marker
	if w.EndBookmark && w.Start == StateThenNow {
		events = checkEnd(t, events, h.current.revision)
	}
	for _, e := range events {
		if e.End || e.Type == "BOOKMARK" && !w.Bookmarks {
			t.Errorf("a bookmark that was not requested: %+v", e)
		}
	}
	events = slices.DeleteFunc(events, func(e Event) bool { return e.Type == "BOOKMARK" })
	got := make([]string, len(events))
	for i, e := range events {
		got[i] = e.Type + " " + e.Name + " " + strconv.FormatInt(e.Revision, 10)
	}
	if want := h.beginning(w.Watch); want == nil {
		h.checkChanges(t, w.Version, events)
	} else if !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// checkEnd removes the bookmark that ends the state from its events.
func checkEnd(t *testing.T, events []Event, least int64) []Event {
	t.Helper()
	last := slices.IndexFunc(events, func(e Event) bool { return e.End })
	if last < 0 {
		t.Fatalf("no bookmark ends the state: %v", events)
	}
	if e := events[last]; e.Type != "BOOKMARK" || e.Revision < least {
		t.Errorf("the state ends with %s at %d, want a BOOKMARK at %d or later", e.Type, e.Revision, least)
	}
	if added := slices.ContainsFunc(events[last+1:], func(e Event) bool { return e.Type != "BOOKMARK" }); added {
		t.Errorf("events after the end of the state: %v", events[last:])
	}
	return slices.Delete(events, last, last+1)
}

// beginning is what a watch sends before the marker, nil for the changes since a version that is not the current one.
func (h *history) beginning(w Watch) []string {
	if w.Version == Compacted && w.Start != StateThenNow || w.Version == Old && w.Start == AfterVersion {
		return nil
	}
	want := []string{}
	if w.Start == StateThenNow {
		for _, i := range h.current.items {
			want = append(want, "ADDED "+i.Name+" "+strconv.FormatInt(i.Revision, 10))
		}
	}
	return want
}

// checkChanges checks the events from the old state, or the compacted one, to the current one.
func (h *history) checkChanges(t *testing.T, from Version, events []Event) {
	t.Helper()
	want := []string{"MODIFIED item-01", "ADDED item-05-b", "MODIFIED item-08", "DELETED item-10", "ADDED item-99"}
	at := h.old.revision
	if from == Compacted { // a watch cache keeps its own events
		want = append([]string{"MODIFIED item-03", "DELETED item-07"}, want...)
		at = h.compacted.revision
	}
	for i, e := range events {
		if i >= len(want) || e.Type+" "+e.Name != want[i] || e.Revision <= at {
			t.Fatalf("event %d is %s %s at %d after %d, want of %v", i, e.Type, e.Name, e.Revision, at, want)
		}
		at = e.Revision
		if e.Type == "DELETED" {
			continue
		}
		item := slices.IndexFunc(h.current.items, func(i Item) bool { return i.Name == e.Name })
		if h.current.items[item].Revision != e.Revision {
			t.Errorf("event of %s at %d, the list has %d", e.Name, e.Revision, h.current.items[item].Revision)
		}
		if h.Kube == nil && h.current.items[item].Raw != e.Raw {
			t.Errorf("event's object %s, the list has %s", e.Raw, h.current.items[item].Raw)
		}
	}
	if len(events) != len(want) {
		t.Errorf("%d events, want %v", len(events), want)
	}
}
