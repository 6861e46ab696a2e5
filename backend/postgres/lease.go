package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

func leaseState(s *scanner) backend.LeaseState {
	return backend.LeaseState{Lease: lease(s), Remaining: microseconds(s.integer())}
}

// lease reads an id and a TTL; for a negative TTL, see endLeases.
func lease(s *scanner) backend.Lease {
	l := backend.Lease{ID: s.integer(), TTL: time.Duration(s.integer()) * time.Second}
	if l.Ending = l.TTL < 0; l.Ending {
		l.TTL = -l.TTL
	}
	return l
}

// LeaseStates implements [backend.Shared].
func (b *Backend) LeaseStates(
	ctx context.Context, ids []int64,
) (states []backend.LeaseState, origin backend.Origin, err error) {
	if ids == nil {
		return b.allLeases(ctx)
	}
	return b.leaseStates(ctx, b.features.statesOf, ids)
}

func (b *Backend) leaseStates(
	ctx context.Context, sql string, args ...any,
) (states []backend.LeaseState, origin backend.Origin, err error) {
	err = b.reads.query(ctx, "read leases", func() { states = nil }, func(s *scanner) error {
		if origin = s.origin(); !s.null() {
			states = append(states, leaseState(s))
		}
		return nil
	}, sql, args...)
	return states, origin, err
}

// leasePage is how many leases one statement reads when all are read: a million take longer than a statement may.
const leasePage = 50_000

// allLeases reads all leases in parts, each from its own snapshot but all from one server. It returns the origin of the
// first part.
func (b *Backend) allLeases(ctx context.Context) (all []backend.LeaseState, first backend.Origin, err error) {
	for from := int64(math.MinInt64); ; {
		part, origin, err := b.leaseStates(ctx, b.features.states, from, int64(leasePage))
		if err != nil {
			return nil, origin, err
		}
		if all == nil {
			first = origin
		}
		if origin.Server != first.Server {
			return nil, origin, fmt.Errorf("read leases: %w: the server has changed meanwhile", backend.ErrUnavailable)
		}
		all = append(all, part...)
		if len(part) < leasePage || part[leasePage-1].ID == math.MaxInt64 {
			return all, first, nil
		}
		from = part[leasePage-1].ID + 1
	}
}

// Leases are locked in the order of their ids, so that no two statements wait for each other.
const (
	// readLeases returns a row without a lease when there are no leases.
	readLeases = "SELECT %s, l.* FROM (SELECT 1) AS one LEFT JOIN (SELECT " + leaseColumns +
		" FROM leases%s) AS l ON true ORDER BY l.id"

	renewLeases = "UPDATE leases AS l SET expires_at = " + fullTTL + ", due_at = LEAST(l.due_at, " + fullTTL + ") " +
		"FROM (SELECT id FROM leases WHERE id = ANY ($1::bigint[]) AND (expires_at > clock_timestamp() OR " +
		"ttl > 0 AND " + toBeExtended + ") ORDER BY id FOR UPDATE) AS n WHERE l.id = n.id RETURNING l.id, l.ttl"
	fullTTL = "clock_timestamp() + l.ttl * interval '1 second'"

	// dueLeases returns leases that may have ended, and whether they have. It reads the clock in subqueries: an index
	// cannot search for something that changes with every row.
	dueLeases = "SELECT id, expires_at <= (SELECT clock_timestamp()) FROM leases " +
		"WHERE due_at <= (SELECT clock_timestamp()) AND " +
		"EXISTS (SELECT FROM lease_extension WHERE id = 1 AND next_lease IS NULL) " +
		"ORDER BY due_at LIMIT $1::bigint"
	// postponeLeases passes over leases that are being renewed, so it waits for no other statement. It joins an array,
	// because Postgres compares a row that has changed meanwhile with each element of one in a condition.
	postponeLeases = "UPDATE leases AS l SET due_at = l.expires_at FROM (SELECT d.id FROM unnest($1::bigint[]) " +
		"AS u(id) JOIN leases AS d USING (id) ORDER BY d.id FOR UPDATE OF d SKIP LOCKED) AS n WHERE l.id = n.id"
)

// searchTime is how long leases that have ended are looked for, if many are due that have not.
const searchTime = time.Second

// RenewLeases implements [backend.Shared].
func (b *Backend) RenewLeases(ctx context.Context, ids []int64) (renewed []backend.Lease, err error) {
	err = b.control.transaction(ctx, "renew leases", func(ctx context.Context, tx pgx.Tx) error {
		renewed = nil
		return scan(ctx, tx.Conn(), func(s *scanner) error {
			renewed = append(renewed, lease(s))
			return nil
		}, renewLeases, []any{ids})
	})
	if err != nil {
		return nil, err
	}
	return renewed, nil
}

// ExpiredLeases implements [backend.Shared].
func (b *Backend) ExpiredLeases(ctx context.Context, limit int) (ended []int64, err error) {
	began, locked := time.Now(), 0
	for {
		most := limit + locked // these are found again
		var alive []int64
		err = b.control.query(ctx, "look for leases that have ended", func() { ended, alive = nil, nil },
			func(s *scanner) error {
				if id := s.integer(); s.boolean() {
					ended = append(ended, id)
				} else {
					alive = append(alive, id)
				}
				return nil
			}, dueLeases, int64(most))
		if err != nil {
			return nil, err
		}
		postponed, err := b.postpone(ctx, alive)
		switch {
		case err != nil && len(ended) == 0:
			return nil, err
		case err != nil, len(ended) >= limit, len(ended)+len(alive) < most, time.Since(began) > searchTime:
			return ended[:min(len(ended), limit)], nil //nolint:nilerr // those that were found can be revoked
		}
		locked = len(alive) - postponed
	}
}

// postpone sets when leases that have not ended are due next. It returns how many they were, without those that are
// locked. The change need not be durable: leases that are due too early are found again.
func (b *Backend) postpone(ctx context.Context, ids []int64) (n int, err error) {
	for part := range slices.Chunk(ids, extensionPart) {
		var moved int64 // by the last attempt
		err = b.control.transaction(ctx, "look at leases later", func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, commitLazily); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, postponeLeases, part)
			moved = tag.RowsAffected()
			return err
		})
		if err != nil {
			return n, err
		}
		n += int(moved)
	}
	return n, nil
}
