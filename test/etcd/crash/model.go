package crash

import (
	"bytes"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// model is what the server must contain. It is built from the history as that is checked.
type model struct {
	j    *journal
	rev  int64 // checked up to here
	keys map[string]*mvccpb.KeyValue
}

func newModel(j *journal) *model { return &model{j: j, rev: 1, keys: map[string]*mvccpb.KeyValue{}} }

// advance processes the events of the revisions after those already checked.
func (m *model) advance(events []*mvccpb.Event) error {
	m.j.mu.Lock()
	defer m.j.mu.Unlock()
	for len(events) > 0 {
		rev := events[0].Kv.ModRevision
		if rev != m.rev+1 {
			return fmt.Errorf("history goes from revision %d to %d", m.rev, rev)
		}
		n := firstRevision(events)
		if err := m.match(rev, events[:n]); err != nil {
			return fmt.Errorf("revision %d: %w\nevents: %v", rev, err, events[:n])
		}
		for _, e := range events[:n] {
			if err := m.apply(e); err != nil {
				return fmt.Errorf("revision %d: %w", rev, err)
			}
		}
		m.rev, events = rev, events[n:]
	}
	return nil
}

// firstRevision returns the number of events at the first event's revision.
func firstRevision(events []*mvccpb.Event) int {
	n := 1
	for n < len(events) && events[n].Kv.ModRevision == events[0].Kv.ModRevision {
		n++
	}
	return n
}

// finish checks that nothing is missing from a history that ended at the server's current revision, to, and forgets its
// writes.
func (m *model) finish(to int64) error {
	if m.rev != to {
		return fmt.Errorf("history ends at revision %d, the server is at %d", m.rev, to)
	}
	for _, w := range m.j.writes() {
		if w.outcome == acked && !w.seen {
			return fmt.Errorf("acknowledged write is lost: %s; the server is at %d", w, to)
		}
	}
	m.j.settled()
	return nil
}

// match finds the write that made a revision.
func (m *model) match(rev int64, events []*mvccpb.Event) error {
	w := m.j.byRev[rev]
	if w == nil && events[0].Type == mvccpb.Event_PUT {
		w = m.j.byID[string(events[0].Kv.Value)]
	}
	if w == nil {
		i := slices.IndexFunc(m.j.open, func(w *write) bool {
			return !w.seen && (w.outcome == unknown || w.loose && w.rev >= rev) && matches(w, events) == nil
		})
		if i < 0 {
			return fmt.Errorf("no client wrote this")
		}
		w = m.j.open[i]
	}
	switch {
	case w.seen:
		return fmt.Errorf("%s is here a second time", w)
	case w.outcome == refused:
		return fmt.Errorf("%s was refused", w)
	case w.outcome == acked && !w.loose && w.rev != rev:
		return fmt.Errorf("%s was acknowledged at another revision", w)
	}
	w.seen = true
	return matches(w, events)
}

// matches reports whether the events are what w does, all of it and in order.
func matches(w *write, events []*mvccpb.Event) error {
	if len(events) != len(w.puts)+len(w.deletes) {
		return fmt.Errorf("%d events of %s", len(events), w)
	}
	for i, e := range events {
		switch {
		case i < len(w.puts):
			if e.Type != mvccpb.Event_PUT || string(e.Kv.Key) != w.puts[i] || string(e.Kv.Value) != w.id {
				return fmt.Errorf("event %d is not of %s", i, w)
			}
		case e.Type != mvccpb.Event_DELETE || string(e.Kv.Key) != w.deletes[i-len(w.puts)]:
			return fmt.Errorf("event %d is not of %s", i, w)
		}
	}
	return nil
}

// apply applies an event and checks what it says about the key's past.
func (m *model) apply(e *mvccpb.Event) error {
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

// list returns the keys that must exist, in order.
func (m *model) list() []*mvccpb.KeyValue {
	var list []*mvccpb.KeyValue
	for _, kv := range m.keys {
		list = append(list, kv)
	}
	slices.SortFunc(list, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return list
}
