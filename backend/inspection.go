package backend

import (
	"context"
	"fmt"
)

// View reads a database without changing it, also beside servers that write to it. Its methods must not be called
// concurrently.
type View interface {
	Times
	// Clock returns the committed clock.
	Clock(ctx context.Context) (Clock, error)
	// Range and History are those of [Backend]. Nothing keeps a compaction from removing what a later call would read,
	// so the caller must check the clock of each answer.
	Range(ctx context.Context, q RangeQuery) ([]Row, Clock, error)
	History(ctx context.Context, q HistoryQuery) (History, error)
	// Inspect verifies everything that the database holds. What is wrong with it goes into the inspection, and an error
	// means that the inspection could not be finished.
	Inspect(ctx context.Context, i *Inspection) error
	Close() error
}

// shownProblems is how many problems an inspection describes.
const shownProblems = 100

// Inspection is the result of verifying a whole database.
type Inspection struct {
	// Progress, if not nil, is called with what is being verified, and how much of it is done, from 0 to 1.
	Progress func(what string, done float64)

	// Gaps is that of the [Import] that has filled the database. The backend sets it before it reads rows.
	Gaps int64

	// Rows counts the rows.
	Rows int64
	// Problems describes the first problems, and Found counts all of them.
	Problems []string
	Found    int64
	// Damaged counts those that are a row which does not match its checksum.
	Damaged int64

	sums    Sums
	first   int64 // the lowest revision seen
	last    RowID
	written int64
}

// Problem records that something is wrong.
func (i *Inspection) Problem(format string, args ...any) {
	i.Found++
	if len(i.Problems) < shownProblems {
		i.Problems = append(i.Problems, fmt.Sprintf(format, args...))
	}
}

// At reports progress.
func (i *Inspection) At(what string, done float64) {
	if i.Progress != nil {
		i.Progress(what, min(max(done, 0), 1))
	}
}

// Inspected is a row as it was read for an inspection.
type Inspected struct {
	Row  Row  // with its value
	Prev *Row // the row that it superseded, without its value, nil if that is not stored
	// Written is the time of its commit, and Sum its checksum.
	Written, Sum int64
	// Clock is that of the snapshot in which the row was read.
	Clock Clock
}

// Row verifies the next row in the order of writing, also against those before it.
func (i *Inspection) Row(in *Inspected) {
	r := &in.Row
	i.Rows++
	if err := i.sums.Check(r, in.Written, in.Sum); err != nil {
		i.Problem("%s does not match its checksum", name(r))
		i.Damaged++
		i.last = r.ID()
		return // what it says about others is as doubtful
	}
	if i.first == 0 {
		i.first = r.ModRevision
	}
	i.order(r, in.Clock)
	i.links(r, in.Prev, in.Clock)
	if in.Written < i.written {
		i.Problem("%s was written before an earlier revision, by its time", name(r))
	}
	i.written = max(i.written, in.Written)
	if span := in.Clock.Revision - i.first; span > 0 && i.Rows%1000 == 0 {
		i.At("rows", float64(r.ModRevision-i.first)/float64(span))
	}
}

// order verifies the place of r among all rows. Above the compacted revision no row may be
// missing, and above that and Gaps no revision.
func (i *Inspection) order(r *Row, c Clock) {
	last := i.last
	i.last = r.ID()
	switch {
	case r.ModRevision > c.Revision:
		i.Problem("%s is above the clock's revision %d", name(r), c.Revision)
	case r.ModRevision < last.ModRevision || r.ModRevision == last.ModRevision && r.Ordinal <= last.Ordinal:
		i.Problem("%s is out of order, after revision %d", name(r), last.ModRevision)
	case r.ModRevision <= c.Compacted:
	case r.ModRevision == last.ModRevision && r.Ordinal != last.Ordinal+1,
		r.ModRevision != last.ModRevision && r.Ordinal != 0:
		i.Problem("rows of revision %d are missing before ordinal %d", r.ModRevision, r.Ordinal)
	case r.ModRevision > max(last.ModRevision, c.Compacted, i.Gaps, 1)+1:
		i.Problem("revisions %d to %d have no rows", max(last.ModRevision, c.Compacted, 1)+1, r.ModRevision-1)
	}
}

// links verifies what r says about the versions of its key before it.
func (i *Inspection) links(r, prev *Row, c Clock) {
	switch {
	case r.Deleted && (r.CreateRevision != 0 || r.Version != 0 || r.Lease != 0):
		i.Problem("%s is a tombstone with the numbers of a live row", name(r))
	case !r.Deleted && (r.Version < 1 || r.CreateRevision < 1 || r.CreateRevision > r.ModRevision):
		i.Problem("%s has version %d and was created at revision %d", name(r), r.Version, r.CreateRevision)
	case !r.Deleted && (r.Version == 1) != (r.PrevRevision == 0):
		i.Problem("%s has version %d, and the version before it is of revision %d", name(r), r.Version, r.PrevRevision)
	case r.PrevRevision > r.ModRevision || r.PrevRevision < r.CreateRevision && r.PrevRevision != 0:
		i.Problem("%s supersedes one of revision %d, but was created at revision %d", name(r), r.PrevRevision,
			r.CreateRevision)
	case r.PrevRevision == 0:
	case prev == nil:
		if r.ModRevision > c.Compacted {
			i.Problem("%s supersedes one of revision %d, which is missing", name(r), r.PrevRevision)
		}
	case !r.Deleted && (prev.CreateRevision != r.CreateRevision || prev.Version+1 != r.Version):
		i.Problem("%s does not continue the one of revision %d: version %d after %d, created at revision %d and %d",
			name(r), r.PrevRevision, r.Version, prev.Version, r.CreateRevision, prev.CreateRevision)
	}
}

// Ended verifies, after the last row, that it is the clock's.
func (i *Inspection) Ended(c Clock) {
	if last := max(i.last.ModRevision, c.Compacted, i.Gaps, 1); last < c.Revision {
		i.Problem("revisions %d to %d have no rows", last+1, c.Revision)
	}
}

// name names a row in a problem.
func name(r *Row) string {
	return fmt.Sprintf("the row of key %q at revision %d", r.Key[:min(len(r.Key), shownKey)], r.ModRevision)
}
