package store

import (
	"errors"

	"github.com/sqlstore/sqlstore/backend"
)

// ErrTxnTooLarge means that a transaction, or a list of the keys of a lease, touches more rows than [Config.TxnRows].
var ErrTxnTooLarge = errors.New("one transaction touches too many rows; delete or read the range in parts")

// ErrResultTooLarge means that a result that is to be one message exceeds what a message can have, which is 2 GiB.
var ErrResultTooLarge = errors.New("the result exceeds 2147483647 bytes; set a limit, or read the range in parts")

// Requests that the state of the store refuses.
var (
	// ErrCompacted means that the requested revision is below the compacted one (for Compact: not above it).
	ErrCompacted = backend.ErrCompacted
	// ErrFutureRevision means that the requested revision is above the current one.
	ErrFutureRevision = backend.ErrFutureRevision
	// ErrKeyNotFound means that ignore_value or ignore_lease was set for a key that does not exist.
	ErrKeyNotFound = errors.New("key not found")
	// ErrLeaseNotFound means that the lease does not exist, or for a put, that it is being revoked.
	ErrLeaseNotFound = errors.New("requested lease not found")
	// ErrLeaseExists means that a lease with the id to be granted exists already.
	ErrLeaseExists = errors.New("lease already exists")
	// ErrLeaseTTL means that the TTL to be granted is above 9,000,000,000 seconds.
	ErrLeaseTTL = errors.New("too large lease TTL")
	// ErrQuota means that the NOSPACE alarm is raised, or that the database's log exceeds the quota. If the alarm is
	// raised: compact, defragment and disarm it.
	ErrQuota = errors.New("database space exceeded")
	// ErrCorrupt means that the CORRUPT alarm is raised: nothing is written until it is cleared. A read that finds
	// damage returns [backend.ErrCorrupt] instead.
	ErrCorrupt = errors.New("corrupt cluster")
	// ErrTooManyAlarms means that requests cannot raise further alarms until some are cleared.
	ErrTooManyAlarms = errors.New("too many alarms are raised: clear some of them")
)

// Requests that came at a bad time.
var (
	// ErrTooManyRequests means that the sequencer's queue is full.
	ErrTooManyRequests = errors.New("too many requests")
	// ErrUnavailable means that the request was certainly not applied, unless errors.Is also finds
	// [backend.ErrUnknownOutcome]: then the outcome is unknown.
	ErrUnavailable = backend.ErrUnavailable
	// ErrClosed means that the store is closing or closed.
	ErrClosed = errors.New("store is closed")
)
