package backend

import (
	"context"
	"errors"
)

// Errors of sources.
var (
	// ErrSource is returned if a source is not what its name says, or cannot be read.
	ErrSource = errors.New("the source cannot be imported")
	// ErrDamagedSource is returned if a source contradicts itself: a checksum, an order or a length is wrong.
	ErrDamagedSource = errors.New("the source is damaged")
)

// Contents says what a [Source] holds, except for its rows.
type Contents struct {
	// Revision is the current revision, and Compacted the oldest one that can be read; 0 if none was compacted.
	Revision, Compacted int64
	// Gaps is set if revisions above Compacted may have no rows.
	Gaps bool
	// Raised is the revision of the empty entry, which is no row, with which etcdutl has raised the source's revision.
	// It is 0 if there is none. The source's own HashKV covers the entry.
	Raised int64
	// Dated is set if the rows have the times of their commits.
	Dated bool
	// ClusterID is the cluster's id, 0 if the source does not know it.
	ClusterID uint64
	Leases    []Lease
	// Auth has users and roles, nil if the source has none.
	Auth *Auth
	// Bytes and Rows estimate the work, for the progress; 0 if unknown. Rows counts calls of the function that
	// [Source.Rows] takes.
	Bytes, Rows int64
}

// Source is a store to copy from. It does not change while it is read, or it reads from one snapshot.
type Source interface {
	// Contents returns what the source holds besides rows.
	Contents() *Contents

	// Rows calls f with every row in (ModRevision, Ordinal) order: all rows above the compacted revision, and those at
	// or below it that were the newest of their keys there. It leaves PrevRevision 0. Tombstones have neither numbers
	// nor lease. f must not keep the row after it returns. Rows may be called again, and returns the same then. Errors:
	// [ErrDamagedSource], f's.
	Rows(ctx context.Context, f func(*Row) error) error

	// Close releases the source.
	Close() error
}
