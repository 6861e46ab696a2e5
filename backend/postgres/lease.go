package postgres

import (
	"context"
	"fmt"
	"math"
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

	renewLeases = "UPDATE leases AS l SET expires_at = clock_timestamp() + l.ttl * interval '1 second' FROM " +
		"(SELECT id FROM leases WHERE id = ANY ($1::bigint[]) AND (expires_at > clock_timestamp() OR ttl > 0 AND " +
		toBeExtended +
		") ORDER BY id FOR UPDATE) AS n WHERE l.id = n.id RETURNING l.id, l.ttl"
	// expiredLeases reads the clock once: an index cannot search for something that changes with every row. The index
	// of the ends costs each renewal about 3.5 us and 0.3 KB of WAL, because its entry changes, too. Without it, each
	// heartbeat would read all leases: a million took 49 ms in one process of Postgres 15, instead of 0.02 ms.
	expiredLeases = "SELECT id FROM leases WHERE expires_at <= (SELECT clock_timestamp()) AND (SELECT next_lease " +
		"FROM lease_extension WHERE id = 1) IS NULL " +
		"ORDER BY expires_at LIMIT $1::bigint"
)

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
func (b *Backend) ExpiredLeases(ctx context.Context, limit int) (ids []int64, err error) {
	err = b.control.query(ctx, "look for leases that have ended", func() { ids = nil }, func(s *scanner) error {
		ids = append(ids, s.integer())
		return nil
	}, expiredLeases, int64(limit))
	return ids, err
}
