// Package backend is the interface that a database implements to keep sqlstore's rows, and the types that cross it.
//
// A backend stores; it decides nothing. Revisions are assigned above it, by the store's sequencer, while the backend
// holds its clock. What a backend must keep:
//
//  1. Rows never change. They are inserted by [Tx.Commit] and removed by [Backend.Purge], nothing else touches them.
//  2. A commit is all or nothing, durable before it returns, and moves the clock in the same database transaction.
//  3. Every read reports the [Clock] of its own snapshot, so that its caller knows whether the revision that it asked
//     for was still there: compacted <= R <= revision, under the same epoch.
//  4. Nobody else can commit between [Backend.Begin] and the end of the [Tx] that it returned.
//
// Every backend passes the suite in backend/backendtest.
package backend

import (
	"context"
	"time"
)

// Row is one version of one object. It is immutable once committed, and so are the bytes that it points to: they may be
// shared by caches, watchers and responses at the same time.
type Row struct {
	// Key is the object's full key, ordered bytewise.
	Key []byte
	// Value is nil on a tombstone and on a row read without its value.
	Value []byte
	// ModRevision is the revision of the transaction that wrote the row (resource_version).
	ModRevision int64
	// CreateRevision is the revision at which the key last came to exist, 0 on a tombstone.
	CreateRevision int64
	// Version counts the writes of the key since it came to exist, 0 on a tombstone.
	Version int64
	// Lease is the id of the lease that the key is attached to, 0 for none.
	Lease int64
	// PrevRevision is the ModRevision of the row that this one supersedes, 0 when it superseded none or a tombstone.
	PrevRevision int64
	// Ordinal is the row's position among those of its transaction, from 0.
	Ordinal int32
	// Deleted marks a tombstone.
	Deleted bool
}

// RowID names a row for ever: no other row gets the same pair while the epoch lasts.
type RowID struct {
	ModRevision int64
	Ordinal     int32
}

// Size is what the byte bounds of reads count of the row: its key and its value.
func (r *Row) Size() int64 { return int64(len(r.Key) + len(r.Value)) }

// ID returns the row's identity.
func (r *Row) ID() RowID { return RowID{r.ModRevision, r.Ordinal} }

// Clock is the state of the one row that orders all writes.
type Clock struct {
	// Revision is that of the last committed transaction; a fresh store is at 1.
	Revision int64
	// Compacted is the oldest revision that can still be read, less than or equal to Revision; 0 before the first
	// compaction, -1 after one at revision 0, which makes nothing unreadable.
	Compacted int64
	// Epoch is raised when history was lost, never otherwise.
	Epoch int64
}

// Check says whether a read pinned at revision r in the snapshot of this clock saw everything: nil, [ErrCompacted] or
// [ErrFutureRevision].
func (c Clock) Check(r int64) error {
	switch {
	case r < c.Compacted:
		return ErrCompacted
	case r > c.Revision:
		return ErrFutureRevision
	}
	return nil
}

// Span is a range of keys [Start, End). A nil End means exactly the key Start; an empty, non-nil End means no upper
// bound.
type Span struct {
	Start, End []byte
}

// RangeQuery asks for the newest rows at a revision.
type RangeQuery struct {
	Span
	// Revision pins the read: rows above it are not seen. Required.
	Revision int64
	// Limit bounds the rows returned; it must be positive, since no caller reads without a bound.
	Limit int
	// Bytes ends the answer with the row at which their sizes together reach it; 0 for no such bound. Rows may be few
	// and large: no number of them bounds memory. An answer that reaches it may be all there is.
	Bytes int64
	// KeysOnly leaves the values out.
	KeysOnly bool
	// Pin is what the read relies on, see [Shared.Pin]; 0 for nothing.
	Pin int64
}

// HistoryQuery asks for rows in the order in which they were written.
type HistoryQuery struct {
	// After is the last revision already known; rows above it are returned.
	After int64
	// Until is the last revision wanted; 0 means the current one.
	Until int64
	// Span restricts the keys; a zero Span means all of them.
	Span Span
	// Limit bounds the rows returned, but no revision is split: the last one is returned whole.
	Limit int
	// Bytes ends the answer with the revision at which the sizes of its rows, superseded ones included, reach it; 0 for
	// no such bound.
	Bytes int64
	// KeysOnly leaves the values out.
	KeysOnly bool
	// WithPrev asks for the rows superseded, too.
	WithPrev bool
	// Pin is what the read relies on, see [Shared.Pin]; 0 for nothing.
	Pin int64
}

// Change is a row and, where asked for and still kept, the row that it superseded (nil otherwise).
type Change struct {
	Row  Row
	Prev *Row
}

// History is the answer to a [HistoryQuery].
type History struct {
	Clock   Clock
	Changes []Change
	// Through is the revision up to which Changes is complete for the query's span; at least After.
	Through int64
}

// Lease is a granted lease.
type Lease struct {
	ID  int64
	TTL time.Duration // as granted, whole seconds
	// Ending says that its revocation has begun: some of its keys are deleted, and nothing brings it back.
	Ending bool
}

// Alarm is one raised alarm of one member.
type Alarm struct {
	Member uint64
	Kind   int32 // etcd's AlarmType number
}

// Needs lists what a transaction must know before it can be evaluated: read under the clock's lock, at its revision.
type Needs struct {
	// Keys whose newest live row is wanted, with its value.
	Keys [][]byte
	// Spans whose live rows are all wanted, with their values; at most SpanLimit rows in all, else [ErrTooManyRows].
	Spans     []Span
	SpanLimit int
	// LeaseKeys are leases whose attached live rows are wanted, without their values: at most LeaseLimit in all, else
	// [ErrTooManyRows]. Of a single lease with more any LeaseLimit+1 are the answer.
	LeaseKeys  []int64
	LeaseLimit int

	// Tail asks a [Shared] backend for what others wrote, Leases for the state of these leases, which nobody can then
	// renew before the transaction ends. Other backends ignore both.
	Tail   *TailQuery
	Leases []int64
}

// Loaded is the answer to [Needs].
type Loaded struct {
	Clock Clock
	// Rows are the live rows found for the keys and spans of Needs, in key order without repetition.
	Rows []Row
	// LeaseRows answers Needs.LeaseKeys, in no order.
	LeaseRows []Row
	// Tail and Leases answer Needs.Tail and Needs.Leases; a lease that is not there is left out.
	Tail   Tail
	Leases []LeaseState
}

// Effects is everything that one database transaction changes.
type Effects struct {
	// Rows to insert, in (ModRevision, Ordinal) order, consecutive revisions from the clock's own on.
	Rows []Row
	// Revision is the clock's revision afterwards.
	Revision int64
	// Batch is a number drawn at random for these effects, not 0. A [Shared] backend keeps it with the rows: it
	// distinguishes them from others that got their revisions after history was lost.
	Batch int64
	// Compacted is the clock's compacted revision afterwards, unless it is 0 or that is higher already.
	Compacted int64
	// Granted and Revoked are leases to insert and to remove, Ending those whose revocation begins.
	Granted         []Lease
	Ending, Revoked []int64
	// Raised and Cleared are alarms to insert and to remove.
	Raised, Cleared []Alarm
}

// Tx holds the clock. Exactly one of Commit and Rollback ends it.
type Tx interface {
	// Loaded is what Begin was asked for.
	Loaded() *Loaded
	// Commit applies e and returns when it is durable. Errors: [ErrRejected] when the database refused e for its
	// contents, [ErrConflict] with [ErrUnavailable] when the database ended it in favour of others and it can be tried
	// again, [ErrNoSpace] when there was no room for it, [ErrUnavailable] when it certainly did not happen for another
	// reason, and [ErrUnknownOutcome] when nobody can tell. A commit once begun does not heed ctx. What e holds is not
	// kept beyond the call.
	Commit(ctx context.Context, e *Effects) error
	// Rollback gives the clock back without a change.
	Rollback()
}

// Settings identify the store. They are made once, when the database is created.
type Settings struct {
	ClusterID uint64
	MemberID  uint64
}

// Size is how many bytes the database takes.
type Size struct {
	Total int64 // on disk, or of the tables for a server's database
	InUse int64 // less the pages that are free to be used again
	Reads int   // read transactions that are open at this moment, this one not counted
	// Log is what a write-ahead log takes beside Total, over what it takes when all is well, and LogStalled for how
	// long a reader has kept it from beginning anew.
	Log        int64
	LogStalled time.Duration
}

// PurgeResult is how far a step of physical compaction came.
type PurgeResult struct {
	// Through is the revision up to which superseded rows are gone.
	Through int64
	// Near is at least Through: about where the step came to, as rows need not go in the order of their revisions. It
	// is for pacing.
	Near int64
	// Looked counts the rows that this step was to remove, of which some may have been gone, or that it looked at to
	// know; at most as many as it was asked for. Removed counts those that it removed.
	Looked, Removed int
	// Done says that Through has reached the clock's compacted revision.
	Done bool
	// Took is how long the step was at work, Blocked how long no commit could begin because of it. What it waited for
	// others is in neither.
	Took, Blocked time.Duration
}

// Backend is a database with sqlstore's schema in it. All methods may be called concurrently.
//
// A backend may implement more, which its callers find out with a type assertion: [Shared] when other processes write
// to the database as well, [Pooled] when it keeps connections to a server, [Durability] when that server's settings may
// weaken a commit.
//
// Errors of every method: [ErrUnavailable] when the database cannot be reached in time, ctx.Err() when ctx ended first.
type Backend interface {
	TokenKeys

	// Settings returns the identity that the database was created with.
	Settings(ctx context.Context) (Settings, error)

	// Clock returns the committed clock.
	Clock(ctx context.Context) (Clock, error)

	// Range returns the newest row of each key of q's span at q's revision, tombstones left out, in key order. It
	// reports the clock of the same snapshot and leaves it to the caller to check it.
	Range(ctx context.Context, q RangeQuery) ([]Row, Clock, error)

	// Count counts the keys that Range would return for q if it had no limit. It touches the index only.
	Count(ctx context.Context, q RangeQuery) (int64, Clock, error)

	// Rows returns the rows with these ids, values included, in the order asked for. A row that is gone has a nil Key.
	// The answer ends with the row at which their sizes together reach bytes, and so may be shorter than ids; 0 is no
	// such bound.
	Rows(ctx context.Context, ids []RowID, bytes int64) ([]Row, Clock, error)

	// History returns rows in (ModRevision, Ordinal) order, tombstones included.
	History(ctx context.Context, q HistoryQuery) (History, error)

	// Leases returns all leases.
	Leases(ctx context.Context) ([]Lease, error)

	// Alarms returns all raised alarms.
	Alarms(ctx context.Context) ([]Alarm, error)

	// Begin waits for the clock, takes it and reads what n asks for. Errors: [ErrTooManyRows], [ErrClockHeld] with
	// [ErrUnavailable] when it can be tried again.
	Begin(ctx context.Context, n Needs) (Tx, error)

	// Purge removes up to limit rows that are superseded at or below the clock's compacted revision, but none above
	// until, in a transaction of its own, and remembers how far it came. A zero result says that only until, or a pin,
	// keeps the rest. It is safe to call at any time with an until that does not fall; the pacing is the caller's.
	Purge(ctx context.Context, limit int, until int64) (PurgeResult, error)

	// Reclaim gives up to pages free pages back to the operating system where the database can; done when it cannot, or
	// only as many are left as the next writes will take. took is as Blocked of [PurgeResult].
	Reclaim(ctx context.Context, pages int) (done bool, took time.Duration, err error)

	// Defragment gives back all the space that it can and may take long; writes wait for it where they must.
	Defragment(ctx context.Context) error

	// Size returns the bytes that the database takes.
	Size(ctx context.Context) (Size, error)

	// Close ends all use of the database: what is committed stays, files and connections are closed. A temporary
	// database is removed.
	Close() error
}
