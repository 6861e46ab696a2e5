package backend

import (
	"context"
	"time"
)

// Import describes the import that fills, or has filled, a database.
type Import struct {
	// Source identifies what is being imported, 0 if no import is under way. While it is not 0, rows are missing, and
	// no server may open the database.
	Source int64
	// Gaps is the revision up to which revisions may have no rows, because those of the source have none.
	Gaps int64
	// Holder is a random number of the command that imports, 0 if none does. A command that begins later takes over
	// with a number of its own, and the earlier one must not write any more; see [Needs].
	Holder int64
}

// Importing is the part of a [Backend] that marks the target of an import. The rows themselves come with [Tx.Commit].
type Importing interface {
	// Import returns what SetImport has stored last, a zero Import if nothing.
	Import(ctx context.Context) (Import, error)
	// SetImport durably stores next and, unless clusterID is 0, makes it the cluster's id, at the latest when the
	// database is opened again. It holds the clock meanwhile, and changes nothing unless was is stored. Errors:
	// [ErrTakenOver], those of [Tx.Commit].
	SetImport(ctx context.Context, was, next Import, clusterID uint64) error
	// SetRemaining durably stores the remaining time of all leases, in whole seconds up to their TTL. It does not pass
	// before a server opens the database: nobody can renew a lease until then. With nil, all leases have their full TTL
	// again. It changes nothing unless was is stored, like SetImport; on a [Shared] backend, the leases of a part may
	// have changed before another command takes over. Errors: [ErrTakenOver], those of [Tx.Commit].
	SetRemaining(ctx context.Context, was Import, remaining map[int64]time.Duration) error
	// Remaining returns the remaining time of leases; 0 or less for those that have ended. A lease that is missing has
	// its full TTL when a server opens the database.
	Remaining(ctx context.Context) (map[int64]time.Duration, error)
}
