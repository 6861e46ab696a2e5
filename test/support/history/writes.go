package history

import (
	"fmt"
	"slices"
	"strings"
)

// LeasePrefix is the prefix of the keys that are put with a lease. No client deletes them: they go when the lease
// expires.
const LeasePrefix = "l/"

// Fate is the revision of each write that is in the history, acknowledged or not.
type Fate map[*Op]int64

// Writes checks the history against what clients wrote, and returns the fate of each write.
func Writes(ops []*Op, events []Event) (Fate, error) {
	w := &writes{byValue: map[string]*Op{}, acked: map[int64]*Op{}, fate: Fate{}}
	if err := w.index(ops); err != nil {
		return nil, err
	}
	for len(events) > 0 {
		n := sameRevision(events)
		if err := w.match(events[:n]); err != nil {
			return nil, fmt.Errorf("revision %d: %w\nevents: %+v", events[0].Revision, err, events[:n])
		}
		events = events[n:]
	}
	for rev, o := range w.acked {
		if w.fate[o] != rev {
			return nil, fmt.Errorf("an acknowledged write is lost: %v", o)
		}
	}
	return w.fate, nil
}

type writes struct {
	byValue map[string]*Op // of puts
	acked   map[int64]*Op  // by revision
	open    []*Op          // deletions of unknown outcome
	fate    Fate
}

func (w *writes) index(ops []*Op) error {
	for _, o := range ops {
		if !o.Kind.Writes() {
			continue
		}
		if o.Kind != Delete {
			w.byValue[o.Value] = o
		}
		switch {
		case o.Outcome == Unknown && o.Kind == Delete:
			w.open = append(w.open, o)
		case o.Outcome == Done:
			if other := w.acked[o.Revision]; other != nil {
				return fmt.Errorf("revision %d was acknowledged twice: %v and %v", o.Revision, other, o)
			}
			w.acked[o.Revision] = o
		}
	}
	return nil
}

// sameRevision returns the number of events in the first revision.
func sameRevision(events []Event) int {
	n := 1
	for n < len(events) && events[n].Revision == events[0].Revision {
		n++
	}
	return n
}

// match finds the write that made a revision.
func (w *writes) match(events []Event) error {
	rev := events[0].Revision
	o := w.acked[rev]
	switch {
	case o != nil:
	case !events[0].Deleted:
		o = w.byValue[events[0].Value]
	case strings.HasPrefix(events[0].Key, LeasePrefix):
		return expiry(events)
	default:
		if i := slices.IndexFunc(w.open, func(o *Op) bool { return o.Keys[0] == events[0].Key }); i >= 0 {
			o = w.open[i]
			w.open = slices.Delete(w.open, i, i+1)
		}
	}
	switch {
	case o == nil:
		return fmt.Errorf("no client wrote this")
	case o.Outcome == Refused:
		return fmt.Errorf("the write was refused: %v", o)
	case w.fate[o] != 0:
		return fmt.Errorf("the write appears a second time, first at revision %d: %v", w.fate[o], o)
	case o.Outcome == Done && o.Revision != rev:
		return fmt.Errorf("the write was acknowledged at another revision: %v", o)
	}
	w.fate[o] = rev
	return whole(o, events)
}

// whole reports whether the events are exactly those of a write, in order.
func whole(o *Op, events []Event) error {
	keys := slices.Concat(o.Keys, o.Deletes)
	if len(events) != len(keys) {
		return fmt.Errorf("%d events of the write %v", len(events), o)
	}
	for i, e := range events {
		put := o.Kind != Delete && i < len(o.Keys)
		if e.Key != keys[i] || e.Deleted == put || put && (e.Value != o.Value || e.Lease != o.Lease) ||
			!put && e.Lease != 0 {
			return fmt.Errorf("event %d is not of the write %v", i, o)
		}
	}
	return nil
}

// expiry checks the deletion of a lease's keys: all of one lease.
func expiry(events []Event) error {
	for _, e := range events {
		if !e.Deleted || leaseOf(e.Key) != leaseOf(events[0].Key) {
			return fmt.Errorf("%+v is deleted along with the keys of lease %s", e, leaseOf(events[0].Key))
		}
	}
	return nil
}

// leaseOf returns LEASE of a key l/LEASE/NAME.
func leaseOf(key string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(key, LeasePrefix), "/")
	return id
}
