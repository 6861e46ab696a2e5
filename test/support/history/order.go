package history

import (
	"fmt"
	"maps"
)

// Base is the content of the keys when a run began: their newest events.
type Base map[string]Event

// Apply adds events, in order.
func (b Base) Apply(events ...Event) {
	for _, e := range events {
		b[e.Key] = e
		if e.Deleted {
			delete(b, e.Key)
		}
	}
}

// clone returns a copy, to apply events to.
func (b Base) clone() Base {
	c := Base{}
	maps.Copy(c, b)
	return c
}

// Order checks that events cover all revisions after from up to to, without a gap, and that each is correct about its
// key's past.
func Order(base Base, events []Event, from, to int64) error {
	last := from
	keys := base.clone()
	for i, e := range events {
		if e.Revision != last && e.Revision != last+1 || i == 0 && e.Revision == from {
			return fmt.Errorf("history goes from revision %d to %d: %+v", last, e.Revision, e)
		}
		last = e.Revision
		old, exists := keys[e.Key]
		exists = exists && !old.Deleted
		switch {
		case exists && old.Revision == e.Revision && !e.Deleted:
			return fmt.Errorf("key %q is put twice at revision %d", e.Key, e.Revision)
		case e.Deleted && !exists:
			return fmt.Errorf("revision %d deletes %q, which does not exist", e.Revision, e.Key)
		case e.Deleted && (e.Create != 0 || e.Version != 0 || e.Value != ""):
			return fmt.Errorf("a deletion has a version: %+v", e)
		case !e.Deleted && exists && (e.Create != old.Create || e.Version != old.Version+1):
			return fmt.Errorf("%+v does not follow %+v", e, old)
		case !e.Deleted && !exists && (e.Create != e.Revision || e.Version != 1):
			return fmt.Errorf("%+v creates its key but has another create revision", e)
		}
		keys.Apply(e)
	}
	if last != to {
		return fmt.Errorf("history ends at revision %d, the clock is at %d", last, to)
	}
	return nil
}

// Previous checks that each event has the version of its key before it.
func Previous(base Base, events []Event) error {
	keys := base.clone()
	for _, e := range events {
		if was := keys[e.Key].KV(); e.Prev != was {
			return fmt.Errorf("%+v: the version before is %+v", e, was)
		}
		keys.Apply(e)
	}
	return nil
}

// Watch checks that a watch saw the history, once and in order.
func Watch(got, history []Event) error {
	for i := range max(len(got), len(history)) {
		switch {
		case i >= len(got):
			return fmt.Errorf("it saw %d events of %d: %+v is missing", len(got), len(history), history[i])
		case i >= len(history):
			return fmt.Errorf("it saw %d events of %d: %+v does not belong there", len(got), len(history), got[i])
		case got[i] != history[i]:
			return fmt.Errorf("event %d is %+v, the history has %+v", i, got[i], history[i])
		}
	}
	return nil
}
