package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"
)

// extensionPart is how many leases one transaction extends. 5,000 take about 0.2 s, during which their renewals wait.
const extensionPart = 5000

const (
	moveExtension = "UPDATE lease_extension SET next_lease = $1::bigint WHERE id = 1"
	lockExtension = "SELECT next_lease FROM lease_extension WHERE id = 1 FOR UPDATE"
	// extendLeases updates the range of the leases that it has locked: a join with those may read all before them, too.
	extendLeases = "WITH n AS (SELECT id FROM leases WHERE id >= $1::bigint " +
		"ORDER BY id LIMIT $2::bigint FOR UPDATE), " +
		"u AS (UPDATE leases AS l SET expires_at = " + extended + ", due_at = LEAST(l.due_at, " + extended + ") " +
		"WHERE l.id >= $1::bigint AND l.id <= (SELECT max(id) FROM n)) SELECT count(*), max(id) FROM n"
	extended     = "LEAST(" + fullTTL + ", l.expires_at + (clock_timestamp() - " + pausedAt + "))"
	endExtension = "WITH d AS (" + endPause + ") UPDATE lease_extension SET next_lease = NULL WHERE id = 1"
)

// ExtendLeases implements [backend.Shared].
func (b *Backend) ExtendLeases(ctx context.Context) (done bool, err error) {
	err = b.control.transaction(ctx, "give leases their time again", func(ctx context.Context, tx pgx.Tx) error {
		done, err = extendPart(ctx, tx)
		return err
	})
	return done, err
}

// extendPart resets the next leases to their full TTL, or to their remaining time after an import, if an extension is
// in progress, and reports whether those were the last. Leases that it has not reached yet do not end in the meantime:
// see toBeExtended. A new extension starts with all leases again; those that were extended after an import may then
// get more, up to their TTL.
func extendPart(ctx context.Context, tx pgx.Tx) (done bool, err error) {
	next, last, n, there := int64(0), int64(0), int64(0), false
	err = scan(ctx, tx.Conn(), func(s *scanner) error {
		there = true
		if done = s.null(); !done {
			next = s.integer()
		}
		return nil
	}, lockExtension, nil)
	if err == nil && !there {
		err = errNoExtension
	}
	if err != nil || done {
		return done, err
	}
	err = scan(ctx, tx.Conn(), func(s *scanner) error { n, last = s.integer(), s.integer(); return nil }, extendLeases,
		[]any{next, int64(extensionPart)})
	if err != nil {
		return false, err
	}
	if n < extensionPart || last == math.MaxInt64 {
		_, err = tx.Exec(ctx, endExtension)
		return true, err
	}
	_, err = tx.Exec(ctx, moveExtension, last+1)
	return false, err
}
