package backend

import (
	"errors"
	"fmt"
)

// Reads.
var (
	// ErrCompacted is returned for a revision below the compacted one.
	ErrCompacted = errors.New("required revision has been compacted")
	// ErrFutureRevision is returned for a revision above the current one.
	ErrFutureRevision = errors.New("required revision is a future revision")
	// ErrOtherEpoch is the error of who reads for one epoch and gets rows of another one. It is an [ErrUnavailable].
	ErrOtherEpoch = fmt.Errorf("%w: history was lost; read again", ErrUnavailable)
	// ErrServerBehind is the error of who reads from a server that lacks what was read from it, or from another one,
	// before. It is an [ErrUnavailable].
	ErrServerBehind = fmt.Errorf("%w: it is behind what was read from it before; read again", ErrUnavailable)
	// ErrTooManyRows is returned when the spans of a transaction hold more rows than one transaction may touch.
	ErrTooManyRows = errors.New("one transaction touches too many rows; delete or read the range in parts")
)

// Commits.
var (
	// ErrRejected is returned when the database refuses a transaction for what it contains. Nothing was applied.
	ErrRejected = errors.New("database refused the rows")
	// ErrOldReplica is returned for what a replica of an older version, which runs beside this one, would take for
	// something else. Nothing was applied. It is an [ErrRejected].
	ErrOldReplica = fmt.Errorf("%w: a replica of an older version does not know what they hold; upgrade all replicas",
		ErrRejected)
	// ErrConflict is returned when the database ended a transaction in favour of others, such as one that this process
	// left idle for too long. Nothing was applied, and another try can succeed. It is wrapped with [ErrUnavailable],
	// for callers that do not try again.
	ErrConflict = errors.New("transaction gave way to another one")
	// ErrClockHeld is returned when others held the clock for as long as one is willing to wait for it at a time.
	// Nothing was applied. It is wrapped with [ErrUnavailable], too.
	ErrClockHeld = errors.New("others hold the clock")
	// ErrNoSpace is returned when the disk is full. Nothing was applied.
	ErrNoSpace = errors.New("no space left for the database; free some, compact, or move it")
	// ErrUnknownOutcome is returned when a commit may or may not have happened. It must not be repeated blindly.
	ErrUnknownOutcome = errors.New("commit has an unknown outcome")
	// ErrUnavailable is returned when the database cannot be reached or used now. Nothing was applied.
	ErrUnavailable = errors.New("database is unavailable")
	// ErrNoClock is returned when the database lacks the row that orders all writes: nothing can be read or written for
	// certain. It is an [ErrUnavailable].
	ErrNoClock = fmt.Errorf("%w: its table clock has no row, as after a restore that left it out; "+
		"restore a complete backup", ErrUnavailable)
	// ErrClosed is returned by a backend after Close.
	ErrClosed = errors.New("database is closed")
)

// ErrInUse is returned at the start when another process has the database file open for writing.
var ErrInUse = errors.New("database is in use by another process; stop that one or choose another data directory")
