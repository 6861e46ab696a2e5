package backend

import (
	"context"
	"time"
)

// Shared is a Backend that other processes also write to, each through its own store. It guarantees in addition:
//
//  1. Between [Backend.Begin] and the end of its Tx, a [SharedTx], no process can commit. Begin reads after it acquires
//     the clock, so nothing that was committed before is missing.
//  2. Time is the database's. No method depends on the clock of the machine that calls it.
//  3. A process that is suspended or cut off while it holds the clock loses the clock after a few seconds, and its
//     transaction with it.
//  4. Only the primary answers [Shared.Head], [Shared.Tail], [Shared.LeaseStates] and [Backend.Begin], and the answers
//     identify the server. A server may have been replaced without knowing it: see [Shared.Confirm].
type Shared interface {
	Backend

	// Head returns enough to tell whether anything new was written, at a fraction of Tail's cost.
	Head(ctx context.Context) (Head, error)

	// Confirm returns the same as Head, from a server that is certainly the primary: the answer was read in a
	// transaction that began after the call, wrote, and was acknowledged by the server, and by the synchronous standby
	// if there is one. Such a commit proves that its server had not been replaced when it began. Unlike a heartbeat, it
	// does not record that m is alive. Callers that may call it often share calls.
	Confirm(ctx context.Context, m Member) (Head, error)

	// Unconfirmed returns for how long, at the time of the call, it has been unknown whether the server of an answer is
	// still the primary. That is the time since the start of the newest commit that the server acknowledged to this
	// process: a batch, a heartbeat or a Confirm. If there was none, it is the maximum duration. Time during which the
	// process was suspended counts, too.
	Unconfirmed(o Origin) time.Duration

	// Tail returns what was written after a revision, all from one snapshot.
	Tail(ctx context.Context, q TailQuery) (Tail, error)

	// Hint notifies the other processes of a commit, where the database can: the clock's revision, and the compacted
	// revision if it has moved, otherwise 0. Revision 0 announces that a member has left. It does not delay commits. An
	// error only means that the hint may be lost.
	Hint(ctx context.Context, revision, compacted int64) error

	// Listen calls hint with what another process sent with Hint, until ctx ends. Hints may be lost, repeated or wrong.
	// It calls state with true when hints can be expected from then on, and with false when they cannot, or can no
	// longer, be expected. It keeps trying if the database can send hints at all.
	Listen(ctx context.Context, hint func(revision, compacted int64), state func(listening bool))

	// RaiseEpoch checks, while it holds the clock, whether history was lost: whether the clock has an epoch below
	// known.Epoch, or has that epoch but has fallen below known.Revision or has rows of a batch other than batch at
	// that revision (0: there were none). If so, it raises the epoch above both. It returns the resulting clock.
	RaiseEpoch(ctx context.Context, known Clock, batch int64) (Clock, error)

	// LeaseStates returns the state of the leases with these ids, or of all leases if ids is nil. It leaves out those
	// that do not exist.
	LeaseStates(ctx context.Context, ids []int64) ([]LeaseState, Origin, error)

	// RenewLeases durably resets the leases that have not ended to their full TTL, and returns those. A lease whose
	// revocation has begun has ended; no renewal or extension revives it.
	RenewLeases(ctx context.Context, ids []int64) ([]Lease, error)

	// ExpiredLeases returns up to limit leases that have ended.
	ExpiredLeases(ctx context.Context, limit int) ([]int64, error)

	// Heartbeat records that m is alive, and acquires or keeps the maintenance lease if no other live member holds it.
	// A member counts as dead, and its maintenance lease as free, when it has sent no heartbeat for timeout. When no
	// member has sent a heartbeat for silence, or the maintenance lease moves, clients may have been unable to renew:
	// an extension begins in the same transaction, so that any process that sees the heartbeat sees the extension, too.
	// The extension resets every lease to its full TTL, and no lease ends before its reset.
	Heartbeat(ctx context.Context, m Member, timeout, silence time.Duration) (Membership, error)

	// ExtendLeases continues an extension that a heartbeat of any member has begun, and reports whether it is done. One
	// call does no more than it can without delaying renewals. The holder of the maintenance lease calls it until it is
	// done.
	ExtendLeases(ctx context.Context) (done bool, err error)

	// Leave removes a member immediately.
	Leave(ctx context.Context, id uint64) error

	// Pin keeps every process from purging rows superseded above revision until d has passed or Release is called with
	// the pin's id, which is not 0. A failover may lose it. A caller that relies on it passes it in each query: while
	// the pin exists in the snapshot that is read, the reported clock shows no compaction above revision. Errors:
	// [ErrCompacted] when revision is already compacted.
	Pin(ctx context.Context, revision int64, d time.Duration) (id int64, err error)

	// Renew makes a pin end d from now. Errors: [ErrCompacted] if the pin no longer exists, so that what it kept may be
	// purged.
	Renew(ctx context.Context, id int64, d time.Duration) error

	// Release removes a pin.
	Release(ctx context.Context, id int64) error
}

// Head is the current end of history.
type Head struct {
	Clock Clock
	// Batch is the batch that last moved the revision, 0 for none.
	Batch int64
	// Alarms is a number that increases with every change of the alarms, users or roles.
	Alarms int64
	Origin Origin
}

// TailQuery asks for what was written after a revision.
type TailQuery struct {
	// After is the last revision already known.
	After int64
	// Limit is the number of rows to return, and Bytes limits their total size as in [HistoryQuery], but no revision is
	// split.
	Limit int
	Bytes int64
	// Until is the last revision wanted; 0 means the current one.
	Until int64
	// KeysOnly leaves the values out.
	KeysOnly bool
	// WithPrev also returns the superseded rows.
	WithPrev bool
}

// SharedTx is the Tx that [Backend.Begin] of a Shared returns.
type SharedTx interface {
	Tx

	// Tail is [Shared.Tail] while the clock is held: nobody commits between two calls.
	Tail(ctx context.Context, q TailQuery) (Tail, error)
}

// Tail is the answer to a [TailQuery].
type Tail struct {
	Clock Clock
	// Changes are in (ModRevision, Ordinal) order, with values unless the query leaves them out, and complete up to
	// Through.
	Changes []Change
	Through int64
	// Base is the batch that wrote revision After, 0 when no row of that revision exists.
	Base int64
	// Batch is the batch that moved the clock to Through, with or without rows; 0 when it wrote none and the clock has
	// moved on.
	Batch int64
	// Purged is the compacted revision for which rows may have been removed; above it, all are present.
	Purged int64
	// Alarms is a number that increases with every change of the alarms, users or roles.
	Alarms int64
	Origin Origin
}

// LeaseState is a lease and its remaining time: 0 or less when it has ended but is not revoked yet.
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

// Membership is the result of a heartbeat.
type Membership struct {
	// Members are the live members, including the caller, ordered by id.
	Members []Member
	// Leader is the member that holds the maintenance lease, 0 for none.
	Leader uint64
	// Acquired reports that this heartbeat acquired the maintenance lease, which another member or nobody held before.
	Acquired bool
	// Extending reports that an extension is resetting leases to their full TTL, and that [Shared.ExtendLeases] must be
	// called for the rest of them.
	Extending bool
	// Silence is the time between the previous heartbeat of any member and this one, by the database's clock. It is
	// never negative: if that clock was stepped back, Silence says how far back the time is.
	Silence time.Duration
}
