package watch

import (
	"sort"
	"sync/atomic"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

// eventBytes is what an event takes besides its items.
const eventBytes = 32

// event is one published change. prev is what it superseded, nil for a create; its value may have to be fetched.
//
// Each event is allocated separately, and so are its items: a reference to one keeps nothing else of its batch in
// memory. The watches for which it is pending share it, so it counts once, however many they are.
type event struct {
	item    *index.Item
	prev    *index.Item
	bytes   int64        // what it keeps in memory
	waiting atomic.Int32 // the number of watches for which it is pending
}

func newEvent(it, prev *index.Item) *event {
	n := int64(len(it.Key)+len(it.Value)) + eventBytes + index.ItemBytes
	if prev != nil {
		n += int64(len(prev.Value)) + index.ItemBytes
	}
	return &event{item: it, prev: prev, bytes: n}
}

func (e *event) revision() int64 { return e.item.ModRevision }

// replayed returns the event as a later watch sees it: what was superseded at or below the compacted revision is left
// out, whether or not it still exists.
func (e *event) replayed(compacted int64) *event {
	if e.prev == nil || e.item.ModRevision > compacted {
		return e
	}
	return newEvent(e.item, nil)
}

// window holds the most recent events, bounded by bytes, which new and unsynced watches need most often. It contains
// whole revisions only. Guarded by hub.mu.
type window struct {
	max    int64
	bytes  int64
	first  int64 // every event of this revision and above is in the window
	events []*event
}

func (w *window) add(e *event) {
	w.events = append(w.events, e)
	w.bytes += e.bytes
}

// trim drops whole revisions from the old end until the bytes are within the bound.
func (w *window) trim() {
	n := 0
	for w.bytes > w.max && n < len(w.events) {
		rev := w.events[n].revision()
		for n < len(w.events) && w.events[n].revision() == rev {
			w.bytes -= w.events[n].bytes
			w.events[n] = nil
			n++
		}
		w.first = rev + 1
	}
	w.events = w.events[n:]
}

// from returns the events of revision rev and above.
func (w *window) from(rev int64) []*event {
	return w.events[sort.Search(len(w.events), func(i int) bool { return w.events[i].revision() >= rev }):]
}

// firstRevisions returns the first whole revisions of events, as many as it takes to reach either bound, at least one.
func firstRevisions(events []*event, most int, bytes int64) []*event {
	for n := 0; n < len(events); {
		if n > 0 && (n >= most || bytes <= 0) {
			return events[:n]
		}
		for rev := events[n].revision(); n < len(events) && events[n].revision() == rev; n++ {
			bytes -= events[n].bytes
		}
	}
	return events
}

func sizeOfEvents(events []*event) (bytes int64) {
	for _, e := range events {
		bytes += e.bytes + slotBytes
	}
	return bytes
}
