package sqlite

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// reached is the highest revision of a store that is known to have been synced, by the id of its cluster. The note in
// the lock file has it: a database file of the same store at a lower revision is an older copy. The note is written now
// and then, not with each commit, so it may be behind.
type reached struct {
	cluster  uint64
	revision int64
}

// reached returns what the next note says. Until the file's clock has passed the revision that an earlier note says, it
// repeats that one.
func (b *Backend) reached() reached {
	clock := b.clock.Load()
	if clock == nil || b.settings.ClusterID == 0 { // not open yet
		return b.before
	}
	r := reached{cluster: b.settings.ClusterID}
	if b.synchronous() != "OFF" { // otherwise, a power cut may take away what was reached
		r.revision = clock.Revision
	}
	if b.before.cluster == r.cluster {
		r.revision = max(r.revision, b.before.revision)
	}
	return r
}

// Restored implements [backend.Restorable]. A file that was copied elsewhere, without its lock file, shows nothing.
func (b *Backend) Restored() backend.Restoration {
	revision := b.clock.Load().Revision
	if b.before.cluster != b.settings.ClusterID || b.before.revision <= revision {
		return backend.Restoration{}
	}
	return backend.Restoration{
		Evidence: fmt.Sprintf("the file is at revision %d, and its lock file says that it was at %d", revision,
			b.before.revision),
		Revision: b.before.revision,
	}
}

// Raised implements [backend.Restorable]. The clock in the file is the record.
func (b *Backend) Raised(context.Context) error { return b.usable() }

var _ backend.Restorable = (*Backend)(nil)
