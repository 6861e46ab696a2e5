package backend

import (
	"context"
	"time"
)

// Pooled is a [Backend] that keeps connections to a database server.
type Pooled interface {
	// Connections returns the connection counts.
	Connections() Connections
}

// Connections counts the connections of a [Pooled] backend.
type Connections struct {
	InUse, Idle, Max int
	// Waits is how many times so far a connection was needed and none was idle. Opened is how many were opened.
	Waits, Opened int64
	// RefusedAt is when the server last refused one because it allows no more, zero if it never did. Refused is what it
	// said.
	RefusedAt time.Time
	Refused   string
}

// Reserving is a [Backend] that holds disk space in reserve. It releases the reserve when the disk is full, so that
// deletes and compaction can be committed, and restores it when there is room again.
type Reserving interface {
	// OutOfSpace returns an [ErrNoSpace] while the reserve is released, nil otherwise. Callers then commit no new rows
	// except tombstones.
	OutOfSpace() error
	// Reserved returns the number of bytes in reserve: 0 while the reserve is released, or if it was never created.
	Reserved() int64
}

// OnDisk is a [Backend] whose database is on a disk of this machine.
type OnDisk interface {
	// FreeDisk returns the free space of that disk, in bytes. Errors: those of the file system.
	FreeDisk() (int64, error)
}

// Programs is a [Backend] that remembers which versions of sqlstore have served it.
type Programs interface {
	// RecordProgram records that this version serves the database from now on, and returns the one that did before, ""
	// if none did.
	RecordProgram(ctx context.Context, version string) (before string, err error)
}

// Durability is a [Backend] over a server whose settings decide whether a commit survives a crash. It refuses writes
// while the settings do not protect commits, unless it was opened to accept that.
type Durability interface {
	// NotDurable returns the settings that do not protect a commit, as NAME=VALUE, or "" when all of them do.
	NotDurable() string
}

// PageChecksums is a [Backend] over a server that may keep checksums of its pages.
type PageChecksums interface {
	// NoPageChecksums reports whether the server keeps none: then it does not notice damage to its files, such as an
	// index that no longer leads to a row.
	NoPageChecksums() bool
}
