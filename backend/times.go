package backend

import (
	"context"
	"errors"
	"time"
)

// ErrUnknownTime is returned when it is not known when a revision was committed, or which revision was current at a
// time: nothing was written then, or no row of that time is left.
var ErrUnknownTime = errors.New("commit time is not known: nothing was written then, or it is compacted")

// Commit is a revision and the time at which it was committed, to the millisecond, by the clock of the database's
// machine. Times never decrease with the revision: a clock that was set back stands still until it catches up.
type Commit struct {
	Revision int64
	At       time.Time
}

// Times tells when revisions were committed.
type Times interface {
	// WrittenAt returns when a revision was committed. Errors: [ErrFutureRevision], [ErrUnknownTime].
	WrittenAt(ctx context.Context, revision int64) (Commit, Clock, error)

	// CurrentAt returns the revision that was current at a time: the newest one committed at or before it. The answer
	// is exact at and above the clock's compacted revision; below it, the rows of later revisions may be gone. Errors:
	// [ErrUnknownTime].
	CurrentAt(ctx context.Context, t time.Time) (Commit, Clock, error)
}

// SearchCommits returns the newest commit at or before t up to the revision until, or [ErrUnknownTime]. next returns
// the first commit at or above a revision, or a zero Commit if there is none: compaction leaves revisions without rows.
// It is called once for each halving of the revisions.
func SearchCommits(until int64, t time.Time, next func(revision int64) (Commit, error)) (found Commit, err error) {
	// Of the commits known, those up to from are at or before t, and those at or above end are after it.
	for from, end := int64(0), until+1; end-from > 1; {
		middle := from + (end-from)/2
		c, err := next(middle)
		switch {
		case err != nil:
			return Commit{}, err
		case c.Revision == 0 || c.Revision >= end || c.At.After(t):
			end = middle
		default:
			found, from = c, c.Revision
		}
	}
	if found.Revision == 0 {
		return Commit{}, ErrUnknownTime
	}
	return found, nil
}
