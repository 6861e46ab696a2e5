package backend

import (
	"context"
	"time"
)

// Shared is a Backend that other processes write to as well, each through a store of its own. What it keeps besides:
//
//  1. Between [Backend.Begin] and the end of its Tx no process can commit, and what Begin read is younger than its hold of the
//     clock: nothing that was committed before is missing.
//  2. Time is the database's. No method depends on the clock of the machine that it is called on.
//  3. A process that stands still, or is cut off, while it holds the clock, loses it after a few seconds, and its transaction
//     with it.
type Shared interface {
	Backend

	// Head returns what tells whether there is anything new: at a fraction of what Tail costs.
	Head(ctx context.Context) (Head, error)

	// Tail returns what was written behind a revision, all of it from one snapshot.
	Tail(ctx context.Context, q TailQuery) (Tail, error)

	// Listen calls hint soon after another process has committed, with the clock's revision then, until ctx ends; hints may be
	// lost, repeated or wrong. It calls state with true when hints can be expected from now on, with false when they cannot (any
	// more); it keeps trying where the database can send them at all.
	Listen(ctx context.Context, hint func(revision int64), state func(listening bool))

	// RaiseIncarnation looks, holding the clock, whether history was lost: whether the clock is still of incarnation
	// held.Incarnation, but has fallen below held.Revision or has rows of another batch than batch there (0: there were none). If so
	// it raises the incarnation. It returns the clock as it is then.
	RaiseIncarnation(ctx context.Context, held Clock, batch int64) (Clock, error)

	// LeaseStates returns the state of the leases with these ids, of all for nil, without those that are not there.
	LeaseStates(ctx context.Context, ids []int64) ([]LeaseState, error)

	// RenewLeases gives leases that have not ended their full TTL again, durably, and returns those.
	RenewLeases(ctx context.Context, ids []int64) ([]Lease, error)

	// ExpiredLeases returns up to limit leases that have ended.
	ExpiredLeases(ctx context.Context, limit int) ([]int64, error)

	// Heartbeat says that m lives, and takes or keeps the maintenance lease if no other living member has it. A member is taken
	// for dead, and its maintenance lease for free, when it was not heard of for patience. When no member was heard of for silence,
	// or the maintenance lease moves, nobody may have been able to renew: every lease gets its full TTL again, in the same
	// transaction, so that whoever sees the heartbeat sees that, too.
	Heartbeat(ctx context.Context, m Member, patience, silence time.Duration) (Membership, error)

	// Leave forgets a member at once.
	Leave(ctx context.Context, id uint64) error

	// Hold keeps every process from purging what is superseded above revision until d has passed or Release is called with the
	// hold's id, which is not 0. A failover may lose it. Whoever relies on it names it in each query: as long as it is there in the
	// snapshot that is read, the clock reported shows no compaction above revision. Errors: [ErrCompacted] when revision is
	// compacted already.
	Hold(ctx context.Context, revision int64, d time.Duration) (id int64, err error)

	// Release ends a hold.
	Release(ctx context.Context, id int64) error
}

// Head is the newest end of history.
type Head struct {
	Clock Clock
	// Batch is the batch that moved the revision last, 0 for none.
	Batch int64
	// Alarms is a number that is raised with every change of the alarms.
	Alarms int64
}

// TailQuery asks for what was written behind a revision.
type TailQuery struct {
	// After is the last revision already known.
	After int64
	// Limit bounds the rows returned, and Bytes their sizes as in [HistoryQuery], but no revision is split.
	Limit int
	Bytes int64
	// WithPrev asks for the rows superseded, too.
	WithPrev bool
}

// Tail is the answer to a [TailQuery].
type Tail struct {
	Clock Clock
	// Changes are in (ModRevision, Ordinal) order, values included, and complete through Through.
	Changes []Change
	Through int64
	// Base is the batch that wrote revision After, 0 when no row of that is there.
	Base int64
	// Batch is the batch that wrote revision Through, 0 when that is After.
	Batch int64
	// Purged is the compacted revision for which rows may have been removed; above it all are there.
	Purged int64
	// Alarms is a number that is raised with every change of the alarms.
	Alarms int64
}

// LeaseState is a lease and what is left of it: 0 or less when it has ended but is not revoked yet.
type LeaseState struct {
	Lease
	Remaining time.Duration
}

// Member is one process that serves the database.
type Member struct {
	ID         uint64
	Name       string
	ClientURLs []string
}

// Membership is what a heartbeat learned.
type Membership struct {
	// Members are those that live, the caller included, by id.
	Members []Member
	// Leader is the member that has the maintenance lease, 0 for none.
	Leader uint64
	// Took says that this heartbeat took the maintenance lease from another member, or from nobody.
	Took bool
	// Silence is how long before this heartbeat the last one of any member was.
	Silence time.Duration
}
