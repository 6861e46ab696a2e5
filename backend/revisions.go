package backend

import (
	"errors"
	"fmt"
)

// ErrRevisionTooHigh is returned for a revision that the database cannot hold, or from which on it could hold too few.
var ErrRevisionTooHigh = errors.New("revision is too high for this kind of database")

// Holds returns an [ErrRevisionTooHigh], wrapped together with [ErrRejected], for a commit at a revision that the
// database cannot hold.
func (s Settings) Holds(revision int64) error {
	if revision <= s.MaxRevision {
		return nil
	}
	return fmt.Errorf("%w: %w: it holds revisions up to %d, and the next one is %d; copy the store into a database on "+
		"Postgres with 'sqlstore import'", ErrRejected, ErrRevisionTooHigh, s.MaxRevision, revision)
}

// Liftable returns the highest revision that the database may be lifted to at once, by a repair or an import. The other
// half of the revisions is left for writes and later repairs: from the last revision there is no way back.
func (s Settings) Liftable() int64 { return s.MaxRevision / 2 }

// Lifts returns an [ErrRevisionTooHigh] for a revision above [Settings.Liftable].
func (s Settings) Lifts(revision int64) error {
	if revision <= s.Liftable() {
		return nil
	}
	return fmt.Errorf("%w: it can be lifted to %d at most, so that as many are left for writes, but not to %d",
		ErrRevisionTooHigh, s.Liftable(), revision)
}
