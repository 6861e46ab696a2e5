package backend

import "context"

// Restorable is a [Backend] that can often tell whether its database was put back to an earlier state, by another
// program than sqlstore. Such a database would give out revisions again that clients know with other contents.
type Restorable interface {
	// Restored returns what shows that the database is in an earlier state, as found when the database was opened, the
	// zero Restoration if nothing does. The answer stays the same over all starts until the revision is raised above
	// Restoration.Revision and Raised is called.
	Restored() Restoration
	// Raised durably records that the clock is now above all revisions that clients can know.
	Raised(ctx context.Context) error
}

// Restoration describes how a database was put back to an earlier state.
type Restoration struct {
	// Evidence is what shows it, for people; "" if nothing does.
	Evidence string
	// Revision is one that the database had before, 0 if that is not known. It may have had higher ones.
	Revision int64
}
