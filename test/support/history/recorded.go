package history

import "fmt"

// Recorded is the history in the database. It is read in parts, so that what was read may be compacted.
type Recorded struct {
	// Base has the keys at the revision where the history begins, Events everything after it.
	Base   Base
	Events []Event
	// To is the last revision that was read.
	To int64

	from    int64
	newest  map[string]int64 // of each key that exists
	ordinal int64            // of the next row at revision To
	wrong   error            // the first row that does not fit
}

// NewRecorded returns a history that begins after a revision. The first read must come before a later compaction.
func NewRecorded(from int64) *Recorded {
	return &Recorded{Base: Base{}, from: from, newest: map[string]int64{}}
}

// Add adds the next row, in the order of revisions and ordinals, with its ordinal and its key's previous version. Once
// a row does not fit, it always fails.
func (r *Recorded) Add(e Event, ordinal, previous int64) error {
	if r.wrong == nil {
		r.wrong = r.add(e, ordinal, previous)
	}
	return r.wrong
}

func (r *Recorded) add(e Event, ordinal, previous int64) error {
	if e.Revision != r.To {
		r.To, r.ordinal = e.Revision, 0
	}
	if e.Revision > r.from && ordinal != r.ordinal {
		return fmt.Errorf("revision %d has row %d, want row %d", e.Revision, ordinal, r.ordinal)
	}
	r.ordinal++
	if newest := r.newest[e.Key]; e.Revision > r.from && previous != newest {
		return fmt.Errorf("%+v has the previous version %d, its key's newest is %d", e, previous, newest)
	}
	r.newest[e.Key] = e.Revision
	if e.Deleted {
		r.newest[e.Key] = 0
	}
	if e.Revision <= r.from {
		r.Base[e.Key] = e
	} else {
		r.Events = append(r.Events, e)
	}
	return nil
}
