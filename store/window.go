package store

import "sort"

// event is one published change. prev is what it superseded, nil on a create; its value may have to be fetched.
type event struct {
	item *item
	prev *item
}

func (e *event) cost() int64 {
	n := int64(len(e.item.Key)+len(e.item.Value)) + 128
	if e.prev != nil {
		n += int64(len(e.prev.Value))
	}
	return n
}

// window holds the most recent events, bounded by bytes: what new and lagging watchers need most often. Revisions are whole
// in it. Guarded by hub.mu.
type window struct {
	max    int64
	bytes  int64
	first  int64 // every event of this revision and above is here
	events []*event
}

func (w *window) add(e *event) {
	w.events = append(w.events, e)
	w.bytes += e.cost()
}

// trim drops whole revisions from the old end until the bound holds.
func (w *window) trim() {
	n := 0
	for w.bytes > w.max && n < len(w.events) {
		rev := w.events[n].item.ModRevision
		for n < len(w.events) && w.events[n].item.ModRevision == rev {
			w.bytes -= w.events[n].cost()
			w.events[n] = nil
			n++
		}
		w.first = rev + 1
	}
	w.events = w.events[n:]
}

// from returns the events of revision rev and above.
func (w *window) from(rev int64) []*event {
	return w.events[sort.Search(len(w.events), func(i int) bool { return w.events[i].item.ModRevision >= rev }):]
}

// replayed is the event as a later watch sees it: what was superseded at or below the compacted revision is not shown any
// more, whether or not it is still there.
func (e *event) replayed(compacted int64) *event {
	if e.prev == nil || e.item.ModRevision > compacted {
		return e
	}
	return &event{item: e.item}
}
