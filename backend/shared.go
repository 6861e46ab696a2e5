package backend

import (
	"context"
	"time"
)

// Shared is a Backend that other processes write to as well, each through a store of its own. What it keeps besides:
//
//  1. Between [Backend.Begin] and the end of its Tx, a [SharedTx], no process can commit, and what Begin read is
//     younger than its hold of the clock: nothing that was committed before is missing.
//  2. Time is the database's. No method depends on the clock of the machine that it is called on.
//  3. A process that stands still, or is cut off, while it holds the clock, loses it after a few seconds, and its
//     transaction with it.
//  4. Only the primary answers [Shared.Head], [Shared.Tail], [Shared.LeaseStates] and [Backend.Begin], and their
//     answers say which server that was. A server may have been replaced without knowing it: see [Shared.Confirm].
type Shared interface {
	Backend

	// Head returns what shows whether there is anything new, at a fraction of Tail's cost.
	Head(ctx context.Context) (Head, error)

	// Confirm returns what Head does, of a server that is the primary for certain: it was read in a transaction that
	// began after the call, wrote, and was acknowledged by the server, and by the synchronous standby if there is one.
	// Such a commit proves that its server had not been replaced when it began. Unlike a heartbeat, it does not say
	// that m lives. Those who may call it often share calls.
	Confirm(ctx context.Context, m Member) (Head, error)

	// Unconfirmed says for how long it is not known, at the time of the call, whether the server of an answer is still
	// the primary: the time since the newest commit began that it acknowledged to this process, be it a batch, a
	// heartbeat or a Confirm. It is the longest duration there is when there was none. The time while the process stood
	// still counts, too.
	Unconfirmed(o Origin) time.Duration

	// Tail returns what was written behind a revision, all of it from one snapshot.
	Tail(ctx context.Context, q TailQuery) (Tail, error)

	// Hint notifies the other processes of a commit, where the database can: the clock's revision, and the compacted
	// one if that has moved, 0 if not. It holds up nobody's commits. An error means that the hint may be lost, nothing
	// more.
	Hint(ctx context.Context, revision, compacted int64) error

	// Listen calls hint with what another process said by Hint, until ctx ends; hints may be lost, repeated or wrong.
	// It calls state with true when hints can be expected from now on, with false when they cannot (any more); it keeps
	// trying where the database can send them at all.
	Listen(ctx context.Context, hint func(revision, compacted int64), state func(listening bool))

	// RaiseEpoch looks, holding the clock, whether history was lost: whether the clock is of an epoch below
	// known.Epoch, or of that one but has fallen below known.Revision or has rows of another batch than batch there
	// (0: there were none). If so it raises the epoch above both. It returns the clock as it is then.
	RaiseEpoch(ctx context.Context, known Clock, batch int64) (Clock, error)

	// LeaseStates returns the state of the leases with these ids, of all for nil, without those that are not there.
	LeaseStates(ctx context.Context, ids []int64) ([]LeaseState, Origin, error)

	// RenewLeases gives leases that have not ended their full TTL again, durably, and returns those. A lease whose
	// revocation has begun has ended, and stays so whatever gives leases their time again.
	RenewLeases(ctx context.Context, ids []int64) ([]Lease, error)

	// ExpiredLeases returns up to limit leases that have ended.
	ExpiredLeases(ctx context.Context, limit int) ([]int64, error)

	// Heartbeat says that m lives, and takes or keeps the maintenance lease if no other living member has it. A member
	// is taken for dead, and its maintenance lease for free, when it was not heard of for timeout. When no member was
	// heard of for silence, or the maintenance lease moves, nobody may have been able to renew: an extension begins in
	// the same transaction, so that whoever sees the heartbeat sees that, too. Every lease gets its full TTL again, and
	// none ends before it has.
	Heartbeat(ctx context.Context, m Member, timeout, silence time.Duration) (Membership, error)

	// ExtendLeases goes on with an extension that a heartbeat of any member has begun, and says whether it is done. One
	// call does as much as does not keep renewals waiting; who holds the maintenance lease calls it until it is done.
	ExtendLeases(ctx context.Context) (done bool, err error)

	// Leave forgets a member at once.
	Leave(ctx context.Context, id uint64) error

	// Pin keeps every process from purging what is superseded above revision until d has passed or Release is called
	// with the pin's id, which is not 0. A failover may lose it. Whoever relies on it names it in each query: as long
	// as it is there in the snapshot that is read, the clock reported shows no compaction above revision. Errors:
	// [ErrCompacted] when revision is compacted already.
	Pin(ctx context.Context, revision int64, d time.Duration) (id int64, err error)

	// Release ends a pin.
	Release(ctx context.Context, id int64) error
}

// Head is the newest end of history.
type Head struct {
	Clock Clock
	// Batch is the batch that moved the revision last, 0 for none.
	Batch int64
	// Alarms is a number that is raised with every change of the alarms.
	Alarms int64
	Origin Origin
}

// TailQuery asks for what was written behind a revision.
type TailQuery struct {
	// After is the last revision already known.
	After int64
	// Limit bounds the rows returned, and Bytes their sizes as in [HistoryQuery], but no revision is split.
	Limit int
	Bytes int64
	// Until is the last revision wanted; 0 means the current one.
	Until int64
	// KeysOnly leaves the values out.
	KeysOnly bool
	// WithPrev asks for the rows superseded, too.
	WithPrev bool
}

// SharedTx is what [Backend.Begin] of a Shared returns.
type SharedTx interface {
	Tx

	// Tail is [Shared.Tail] while the clock is held: nobody commits between two calls.
	Tail(ctx context.Context, q TailQuery) (Tail, error)
}

// Tail is the answer to a [TailQuery].
type Tail struct {
	Clock Clock
	// Changes are in (ModRevision, Ordinal) order, values included unless they were left out, and complete through
	// Through.
	Changes []Change
	Through int64
	// Base is the batch that wrote revision After, 0 when no row of that is there.
	Base int64
	// Batch is the batch that moved the clock to Through, with rows or without; 0 when it wrote none and the clock has
	// moved on.
	Batch int64
	// Purged is the compacted revision for which rows may have been removed; above it all are there.
	Purged int64
	// Alarms is a number that is raised with every change of the alarms.
	Alarms int64
	Origin Origin
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
	// Extending says that leases get their full TTL again, and that [Shared.ExtendLeases] is to be called for the rest
	// of them.
	Extending bool
	// Silence is how long before this heartbeat the last one of any member was.
	Silence time.Duration
}
