package journal

import (
	"bytes"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// Model is what the server must contain. It is built from the history as that is checked.
type Model struct {
	j    *Journal
	Rev  int64 // checked up to here
	keys map[string]*mvccpb.KeyValue
}

// NewModel returns the model of empty servers.
func NewModel(j *Journal) *Model { return &Model{j: j, Rev: 1, keys: map[string]*mvccpb.KeyValue{}} }

// advance processes the events of the revisions after those already checked.
func (m *Model) advance(events []*mvccpb.Event) error {
	m.j.mu.Lock()
	defer m.j.mu.Unlock()
	for len(events) > 0 {
		rev := events[0].Kv.ModRevision
		if rev != m.Rev+1 {
			return fmt.Errorf("history goes from revision %d to %d", m.Rev, rev)
		}
		n := FirstRevision(events)
		if err := m.match(rev, events[:n]); err != nil {
			return fmt.Errorf("revision %d: %w\nevents: %v", rev, err, events[:n])
		}
		for _, e := range events[:n] {
			if err := m.apply(e); err != nil {
				return fmt.Errorf("revision %d: %w", rev, err)
			}
		}
		m.Rev, events = rev, events[n:]
	}
	return nil
}

// FirstRevision returns the number of events at the first event's revision.
func FirstRevision(events []*mvccpb.Event) int {
	n := 1
	for n < len(events) && events[n].Kv.ModRevision == events[0].Kv.ModRevision {
		n++
	}
	return n
}

// finish checks that nothing is missing from a history that ended at the server's current revision, to, and forgets its
// writes.
func (m *Model) finish(to int64) error {
	if m.Rev != to {
		return fmt.Errorf("history ends at revision %d, the server is at %d", m.Rev, to)
	}
	for _, w := range m.j.writes() {
		if w.outcome == Acked && !w.seen {
			return fmt.Errorf("acknowledged write is lost: %s; the server is at %d", w, to)
		}
	}
	m.j.settled()
	return nil
}

// match finds the write that made a revision.
func (m *Model) match(rev int64, events []*mvccpb.Event) error {
	w := m.j.byRev[rev]
	if w == nil && events[0].Type == mvccpb.Event_PUT {
		w = m.j.byID[string(events[0].Kv.Value)]
	}
	if w == nil {
		i := slices.IndexFunc(m.j.open, func(w *Write) bool {
			return !w.seen && (w.outcome == Unknown || w.loose && w.rev >= rev) && w.Matches(events) == nil
		})
		if i < 0 {
			return fmt.Errorf("no client wrote this")
		}
		w = m.j.open[i]
	}
	switch {
	case w.seen:
		return fmt.Errorf("%s is here a second time", w)
	case w.outcome == Refused:
		return fmt.Errorf("%s was refused", w)
	case w.outcome == Acked && !w.loose && w.rev != rev:
		return fmt.Errorf("%s was acknowledged at another revision", w)
	}
	w.seen = true
	return w.Matches(events)
}

// Matches returns an error unless the events are what w does, all of it and in order.
func (w *Write) Matches(events []*mvccpb.Event) error {
	if len(events) != len(w.Puts)+len(w.Deletes) {
		return fmt.Errorf("%d events of %s", len(events), w)
	}
	for i, e := range events {
		switch {
		case i < len(w.Puts):
			if e.Type != mvccpb.Event_PUT || string(e.Kv.Key) != w.Puts[i] || string(e.Kv.Value) != w.ID {
				return fmt.Errorf("event %d is not of %s", i, w)
			}
		case e.Type != mvccpb.Event_DELETE || string(e.Kv.Key) != w.Deletes[i-len(w.Puts)]:
			return fmt.Errorf("event %d is not of %s", i, w)
		}
	}
	return nil
}

// apply applies an event and checks what it says about the key's past.
func (m *Model) apply(e *mvccpb.Event) error {
	key := string(e.Kv.Key)
	old := m.keys[key]
	if !proto.Equal(e.PrevKv, old) {
		return fmt.Errorf("%v: prev_kv is not %v", e, old)
	}
	if e.Type == mvccpb.Event_DELETE {
		if old == nil {
			return fmt.Errorf("%v: deletes a key that does not exist", e)
		}
		delete(m.keys, key)
		return nil
	}
	create, version := e.Kv.ModRevision, int64(1)
	if old != nil {
		create, version = old.CreateRevision, old.Version+1
	}
	if e.Kv.CreateRevision != create || e.Kv.Version != version {
		return fmt.Errorf("%v: want create_revision %d and version %d", e, create, version)
	}
	m.keys[key] = e.Kv
	return nil
}

// List returns the keys that must exist, in order.
func (m *Model) List() []*mvccpb.KeyValue {
	var list []*mvccpb.KeyValue
	for _, kv := range m.keys {
		list = append(list, kv)
	}
	slices.SortFunc(list, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return list
}
