package backend

import (
	"errors"
	"fmt"
)

// Errors of reads.
var (
	// ErrCompacted is returned for a revision below the compacted one.
	ErrCompacted = errors.New("required revision has been compacted")
	// ErrFutureRevision is returned for a revision above the current one.
	ErrFutureRevision = errors.New("required revision is a future revision")
	// ErrOtherEpoch is returned when a read for one epoch finds rows of another. It wraps [ErrUnavailable].
	ErrOtherEpoch = fmt.Errorf("%w: history was lost; read again", ErrUnavailable)
	// ErrServerBehind is returned when a server lacks data that was read before, from it or from another server. It
	// wraps [ErrUnavailable].
	ErrServerBehind = fmt.Errorf("%w: it is behind what was read from it before; read again", ErrUnavailable)
	// ErrTooManyRows is returned when the spans of a transaction hold more rows than one transaction may touch.
	ErrTooManyRows = errors.New("one transaction touches too many rows; delete or read the range in parts")
)

// Errors of commits.
var (
	// ErrRejected is returned when the database refuses the contents of a transaction. Nothing was applied.
	ErrRejected = errors.New("database refused the rows")
	// ErrConflict is returned when the database aborted a transaction in favour of others, such as one that this
	// process left idle for too long. Nothing was applied, and a retry can succeed. It is wrapped together with
	// [ErrUnavailable], for callers that do not retry.
	ErrConflict = errors.New("transaction gave way to another one")
	// ErrClockHeld is returned when others held the clock for as long as a single attempt waits for it. Nothing was
	// applied. It is wrapped together with [ErrUnavailable], too.
	ErrClockHeld = errors.New("others hold the clock")
	// ErrNoSpace is returned when the disk is full. Nothing was applied.
	ErrNoSpace = errors.New("no space left for the database; free some, compact, or move it")
	// ErrUnknownOutcome is returned when a commit may or may not have happened. The commit must not be repeated
	// blindly.
	ErrUnknownOutcome = errors.New("commit has an unknown outcome")
	// ErrUnavailable is returned when the database cannot currently be reached or used. Nothing was applied.
	ErrUnavailable = errors.New("database is unavailable")
	// ErrNoClock is returned when the database lacks the row that orders all writes: no read or write can be trusted.
	// It wraps [ErrUnavailable].
	ErrNoClock = fmt.Errorf("%w: its table clock has no row, as after a restore that left it out; "+
		"restore a complete backup", ErrUnavailable)
	// ErrNoAuth is returned when the database lacks the row that says whether authentication is enabled: nobody can be
	// let in. It wraps [ErrUnavailable].
	ErrNoAuth = fmt.Errorf("%w: its table auth has no row, as after a restore that left it out; "+
		"restore a complete backup", ErrUnavailable)
	// ErrClosed is returned by a backend after Close.
	ErrClosed = errors.New("database is closed")
)

// ErrTakenOver is returned to an import whose target another command has taken over, or opened. Nothing was applied.
var ErrTakenOver = errors.New("another command has taken over the import into the database, or has opened it: this " +
	"one writes nothing more, and only one may run")

// Errors of starts.
var (
	// ErrInUse is returned when another process has the database file open for writing.
	ErrInUse = errors.New("database is in use by another process; stop that one or choose another data directory")
	// ErrImporting is returned when rows are missing, because an import into the database has not ended.
	ErrImporting = errors.New("an import into the database is not finished: run the same command again to finish it, " +
		"or drop the database")
	// ErrRestored is returned when a database is in an earlier state than it was: see [Restorable].
	ErrRestored = errors.New("the database was restored to an earlier state, and would give out revisions again that " +
		"clients know: run 'sqlstore repair --bump-by 1000000000' on it, then start again")
)
