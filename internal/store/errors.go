package store

import (
	"errors"

	"github.com/sqlstore/sqlstore/backend"
)

// Requests that are wrong in themselves.
var (
	ErrEmptyKey      = errors.New("key is not provided")
	ErrDuplicateKey  = errors.New("duplicate key given in txn request")
	ErrValueProvided = errors.New("value is provided")
	ErrLeaseProvided = errors.New("lease is provided")
	ErrInvalidSort   = errors.New("invalid sort option")
	ErrTxnTooLarge   = errors.New("one transaction touches too many rows; delete or read the range in parts")
)

// Requests that the store's state refuses.
var (
	// ErrCompacted: the revision asked for is below the compacted one (or, for Compact, not above it).
	ErrCompacted = backend.ErrCompacted
	// ErrFutureRevision: the revision asked for is above the current one.
	ErrFutureRevision = backend.ErrFutureRevision
	// ErrKeyNotFound: ignore_value or ignore_lease on a key that does not exist.
	ErrKeyNotFound   = errors.New("key not found")
	ErrLeaseNotFound = errors.New("requested lease not found")
	ErrLeaseExists   = errors.New("lease already exists")
	ErrLeaseTTL      = errors.New("too large lease TTL")
	// ErrQuota: the NOSPACE alarm is raised; compact, defragment and disarm it.
	ErrQuota = errors.New("database space exceeded")
	// ErrCorrupt: the CORRUPT alarm is raised; nothing is written until it is cleared.
	ErrCorrupt = errors.New("corrupt cluster")
	// ErrTooManyAlarms: no further alarm can be raised by request.
	ErrTooManyAlarms = errors.New("too many alarms are raised: clear some of them")
)

// Requests that came at a bad time.
var (
	// ErrTooManyRequests: the sequencer's queue is full.
	ErrTooManyRequests = errors.New("too many requests")
	// ErrUnavailable: the request was certainly not applied, or its outcome is unknown; errors.Is says with
	// [backend.ErrUnknownOutcome].
	ErrUnavailable = backend.ErrUnavailable
	// ErrClosed: the store is closing.
	ErrClosed = errors.New("store is closed")
)
