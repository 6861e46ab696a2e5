// Package backend defines the interface that a database implements to store sqlstore's rows, and the types that cross
// it.
//
// A backend stores rows and makes no decisions. The store's sequencer, a layer above, assigns revisions while the
// backend holds its clock. A backend must guarantee:
//
//  1. Rows never change. [Tx.Commit] inserts them and [Backend.Purge] removes them; nothing else touches them.
//  2. A commit is atomic, durable before it returns, and moves the clock in the same database transaction.
//  3. Every read reports the [Clock] of its own snapshot, so that the caller can tell whether the requested revision R
//     was still readable: compacted <= R <= revision, in the same epoch.
//  4. A row that is read with its value is verified against its checksum (see [Sums]). If they do not match, the read
//     fails with [ErrCorrupt]. Rows read without their values, and counts, come from an index and are not verified:
//     see [Verifying]. [Backend.Digests] verifies rows without their values.
//  5. Nobody else can commit between [Backend.Begin] and the end of the [Tx] that it returns.
//
// Every backend passes the suite in backend/backendtest. A [Source] is a store that can only be copied from.
package backend

import (
	"bytes"
	"cmp"
	"context"
	"time"
)

// Row is one version of one object. It is immutable once committed, and so are the bytes that it points to: caches,
// watchers and responses may share them.
type Row struct {
	// Key is the object's full key, ordered bytewise.
	Key []byte
	// Value is nil on a tombstone and on a row read without its value.
	Value []byte
	// ModRevision is the revision of the transaction that wrote the row (resource_version).
	ModRevision int64
	// CreateRevision is the revision at which the key was last created, 0 on a tombstone.
	CreateRevision int64
	// Version counts the writes to the key since it was created, 0 on a tombstone.
	Version int64
	// Lease is the id of the lease that the key is attached to, 0 for none.
	Lease int64
	// PrevRevision is the ModRevision of the row that this one supersedes, 0 when it supersedes none or a tombstone.
	PrevRevision int64
	// WrittenAt is the time of the row's commit in milliseconds since 1970. Only rows read with their values have it.
	// [Tx.Commit] ignores it, unless [Effects.Dated] is set: the database has the clock.
	WrittenAt int64
	// Ordinal is the row's position among those of its transaction, from 0.
	Ordinal int32
	// Deleted marks a tombstone.
	Deleted bool
}

// RowID identifies a row permanently: no other row gets the same pair within the epoch.
type RowID struct {
	ModRevision int64
	Ordinal     int32
}

// Compare orders rows as they were written.
func (id RowID) Compare(other RowID) int {
	return cmp.Or(cmp.Compare(id.ModRevision, other.ModRevision), cmp.Compare(id.Ordinal, other.Ordinal))
}

// Size returns the bytes of the row that count towards the byte limits of reads: its key and its value.
func (r *Row) Size() int64 { return int64(len(r.Key) + len(r.Value)) }

// ID returns the row's identity.
func (r *Row) ID() RowID { return RowID{r.ModRevision, r.Ordinal} }

// Clock is the state of the one row that orders all writes.
type Clock struct {
	// Revision is the revision of the last committed transaction; a new store is at 1.
	Revision int64
	// Compacted is the oldest revision that can still be read, less than or equal to Revision; 0 before the first
	// compaction, -1 after one at revision 0, which makes nothing unreadable.
	Compacted int64
	// Epoch is raised when history was lost, and only then.
	Epoch int64
}

// Check reports whether a read pinned at revision r in the snapshot of this clock saw everything: it returns nil,
// [ErrCompacted] or [ErrFutureRevision].
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

// Contains reports whether a key is in the span.
func (s Span) Contains(key []byte) bool {
	if s.End == nil {
		return bytes.Equal(key, s.Start)
	}
	return bytes.Compare(key, s.Start) >= 0 && (len(s.End) == 0 || bytes.Compare(key, s.End) < 0)
}

// RangeQuery asks for the newest rows at a revision.
type RangeQuery struct {
	Span
	// Revision pins the read: rows above it are not seen. Required.
	Revision int64
	// Limit is the maximum number of rows returned. It must be positive: no caller reads without a limit.
	Limit int
	// Bytes ends the answer with the row at which the total size of the rows reaches it; 0 means no limit. A row limit
	// alone does not bound memory, because a few rows can be large. An answer that reaches Bytes may still be complete.
	Bytes int64
	// KeysOnly leaves the values out.
	KeysOnly bool
	// Pin is the id of the pin that the read relies on, see [Shared.Pin]; 0 for none.
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
	// Limit is the number of rows to return. No revision is split: the last one is returned whole.
	Limit int
	// Bytes ends the answer with the revision at which the total size of the rows, superseded ones included, reaches
	// it; 0 means no limit.
	Bytes int64
	// KeysOnly leaves the values out.
	KeysOnly bool
	// WithPrev also returns the superseded rows.
	WithPrev bool
	// Pin is the id of the pin that the read relies on, see [Shared.Pin]; 0 for none.
	Pin int64
}

// Change is a row and, if requested and still stored, the row that it superseded (nil otherwise).
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
	// Ending is set once its revocation has begun: some of its keys are deleted, and it cannot be revived.
	Ending bool
}

// Alarm is one raised alarm of one member.
type Alarm struct {
	Member uint64
	Kind   int32 // etcd's AlarmType number
}

// Needs lists what a transaction must read before it can be evaluated. It is read under the clock's lock, at its
// revision.
type Needs struct {
	// Keys are the keys whose newest live row is read, with its value.
	Keys [][]byte
	// Spans are the ranges whose live rows are all read, with their values: at most SpanLimit rows in total, otherwise
	// [ErrTooManyRows].
	Spans     []Span
	SpanLimit int
	// LeaseKeys are the leases whose attached live rows are read, without their values: at most LeaseLimit in total,
	// otherwise [ErrTooManyRows]. For a single lease with more rows, the answer is any LeaseLimit+1 of them.
	LeaseKeys  []int64
	LeaseLimit int

	// Tail asks a [Shared] backend for what other processes wrote. Leases asks for the state of these leases; nobody
	// can renew them before the transaction ends. Other backends ignore both.
	Tail   *TailQuery
	Leases []int64

	// Import asks for what is being imported. It cannot change before the transaction ends.
	Import bool
}

// Loaded is the answer to [Needs].
type Loaded struct {
	Clock Clock
	// Rows are the live rows found for the keys and spans of Needs, in key order without duplicates.
	Rows []Row
	// LeaseRows answers Needs.LeaseKeys, in no particular order.
	LeaseRows []Row
	// Tail and Leases answer Needs.Tail and Needs.Leases; a lease that does not exist is left out.
	Tail   Tail
	Leases []LeaseState
	// Import answers Needs.Import.
	Import Import
}

// Effects is everything that one database transaction changes.
type Effects struct {
	// Rows are the rows to insert, in (ModRevision, Ordinal) order. Their revisions are consecutive and follow the
	// clock's.
	Rows []Row
	// Dated means that the rows were committed elsewhere, and have their times. Times must not decrease.
	Dated bool
	// Revision is the clock's revision afterwards.
	Revision int64
	// Batch is a random number for these effects, not 0. A [Shared] backend stores it with the rows, to distinguish
	// them from others that get the same revisions after history was lost.
	Batch int64
	// Compacted is the clock's compacted revision afterwards, unless Compacted is 0 or the clock's is already higher.
	Compacted int64
	// Granted and Revoked are the leases to insert and to remove; Ending are those whose revocation begins.
	Granted         []Lease
	Ending, Revoked []int64
	// Raised and Cleared are the alarms to insert and to remove.
	Raised, Cleared []Alarm
	// Auth changes users and roles, unless it is nil. Tokens are the tokens to insert.
	Auth   *AuthChange
	Tokens []AuthToken
}

// Latest returns the time of the newest row that has one of its own, 0 if none has.
func (e *Effects) Latest() (latest int64) {
	if e.Dated {
		for i := range e.Rows {
			latest = max(latest, e.Rows[i].WrittenAt)
		}
	}
	return latest
}

// Tx is a transaction that holds the clock. Exactly one of Commit and Rollback ends it.
type Tx interface {
	// Loaded returns what was read for the [Needs] passed to Begin.
	Loaded() *Loaded
	// Commit applies e, with one time for all of its rows, and returns when it is durable. Errors: [ErrRejected] when
	// the database refused the contents of e, with [ErrRevisionTooHigh] if that is why, [ErrConflict] with
	// [ErrUnavailable] when the database aborted the transaction in favour of others and a retry can succeed,
	// [ErrNoSpace] when there was no room for it, [ErrUnavailable] when it certainly did not happen for another reason,
	// and [ErrUnknownOutcome] when the outcome is unknown. Once a commit has begun, it ignores ctx. Commit does not
	// retain the contents of e after it returns.
	Commit(ctx context.Context, e *Effects) error
	// Rollback releases the clock without a change.
	Rollback()
}

// Settings identify the store, and say what the database can hold. The ids are generated once, when the database is
// created.
type Settings struct {
	ClusterID uint64
	MemberID  uint64
	// MaxRevision is the highest revision that the database can hold; see [Settings.Lifts].
	MaxRevision int64
}

// Size describes the space that the database takes, in bytes.
type Size struct {
	Total int64 // on disk; for a database server, the size of the tables
	InUse int64 // Total less the pages that are free for reuse
	Reads int   // open read transactions, not counting this one
	// Log is the space that the write-ahead log takes in addition to Total, beyond its normal size. LogStalled is how
	// long a reader has kept the log from starting again from its beginning.
	Log        int64
	LogStalled time.Duration
	WAL        int64 // what SQLite's write-ahead log takes in all, its normal size included; 0 on a database server
}

// PurgeResult is the progress of one step of physical compaction.
type PurgeResult struct {
	// Through is the revision up to which superseded rows are gone.
	Through int64
	// Near is the approximate revision that the step reached, at least Through: rows need not be removed in revision
	// order. It is for pacing.
	Near int64
	// Examined counts the rows that this step had to remove, some of which may already have been gone, or that it
	// examined to find them. It does not exceed the limit passed to Purge. Removed counts the rows that it removed.
	Examined, Removed int
	// Done reports that Through has reached the clock's compacted revision.
	Done bool
	// Duration is how long the step worked; Blocked is how long it prevented commits from beginning. Neither includes
	// the time that it waited for others.
	Duration, Blocked time.Duration
}

// Backend is a database with sqlstore's schema in it. All methods may be called concurrently.
//
// A backend may implement optional interfaces, which callers detect with a type assertion: [Shared] when other
// processes write to the database as well, [Pooled] when it keeps connections to a server, [Durability] when that
// server's settings may weaken a commit, [Verifying] when that server may not notice damage to its files, [Restorable]
// when it can tell that another program has restored the database.
//
// Every method can return [ErrUnavailable] when the database cannot be reached in time, and ctx.Err() when ctx ends
// first.
type Backend interface {
	TokenKeys
	Times
	AuthStore
	Importing

	// Settings returns the identity that the database was created with.
	Settings(ctx context.Context) (Settings, error)

	// Clock returns the committed clock.
	Clock(ctx context.Context) (Clock, error)

	// Range returns the newest row of each key in q's span at q's revision, without tombstones, in key order. It
	// reports the clock of the same snapshot; the caller must check it.
	Range(ctx context.Context, q RangeQuery) ([]Row, Clock, error)

	// Count counts the keys that Range would return for q without a limit. It reads only the index.
	Count(ctx context.Context, q RangeQuery) (int64, Clock, error)

	// Rows returns the rows with these ids, values included, in the order of ids. A row that no longer exists has a nil
	// Key. The answer ends with the row at which the total size reaches bytes, so it may be shorter than ids; 0 means
	// no limit.
	Rows(ctx context.Context, ids []RowID, bytes int64) ([]Row, Clock, error)

	// History returns rows in (ModRevision, Ordinal) order, tombstones included.
	History(ctx context.Context, q HistoryQuery) (History, error)

	// Digests is History for all keys, with the digests of the values in the place of the values. It computes them from
	// the rows' checksums. So it relies on the database to notice a damaged value: where that has no checksums of its
	// pages, Digests reads and verifies all values.
	Digests(ctx context.Context, q DigestQuery) (Digests, error)

	// Superseded returns those of q's rows that a later row of the same key supersedes, a tombstone included, in their
	// order. It searches the index once for each row, in one statement for all. A row that no longer exists was
	// superseded: a purge has deleted it since the caller read it.
	Superseded(ctx context.Context, q SupersededQuery) ([]RowID, Clock, error)

	// Leases returns all leases.
	Leases(ctx context.Context) ([]Lease, error)

	// Alarms returns all raised alarms.
	Alarms(ctx context.Context) ([]Alarm, error)

	// Begin waits for the clock, acquires it and reads what n asks for. Errors: [ErrTooManyRows]; [ErrClockHeld] with
	// [ErrUnavailable] when a retry can succeed.
	Begin(ctx context.Context, n Needs) (Tx, error)

	// Purge removes up to limit rows that are superseded at or below the clock's compacted revision, but none above
	// until, in a separate transaction, and records its progress. A zero result means that only until, or a pin,
	// prevents the removal of the rest. It is safe to call at any time as long as until never decreases. The caller
	// does the pacing.
	Purge(ctx context.Context, limit int, until int64) (PurgeResult, error)

	// Reclaim returns up to pages free pages to the operating system, if the database can. done is true when it cannot,
	// or when only as many free pages are left as the next writes will use. took is the time for which it prevented
	// commits from beginning, like Blocked in [PurgeResult].
	Reclaim(ctx context.Context, pages int) (done bool, took time.Duration, err error)

	// Defragment returns as much space as it can to the operating system. It may take a long time; writes wait for it
	// where they must.
	Defragment(ctx context.Context) error

	// Size returns the space that the database takes, in bytes.
	Size(ctx context.Context) (Size, error)

	// Close ends all use of the database and closes its files and connections. Committed data stays, except that a
	// temporary database is removed.
	Close() error
}
