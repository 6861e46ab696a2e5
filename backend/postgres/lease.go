package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

func leaseState(s *scanner) backend.LeaseState {
	return backend.LeaseState{
		Lease:     backend.Lease{ID: s.integer(), TTL: time.Duration(s.integer()) * time.Second},
		Remaining: microseconds(s.integer()),
	}
}

// LeaseStates implements [backend.Shared].
func (b *Backend) LeaseStates(ctx context.Context, ids []int64) (states []backend.LeaseState, err error) {
	sql, args := "SELECT "+leaseColumns+" FROM leases ORDER BY id", []any(nil)
	if ids != nil {
		sql, args = "SELECT "+leaseColumns+" FROM leases WHERE id = ANY ($1::bigint[]) ORDER BY id", []any{ids}
	}
	err = b.query(ctx, "read leases", func() { states = nil }, func(s *scanner) error {
		states = append(states, leaseState(s))
		return nil
	}, sql, args...)
	return states, err
}

// Leases are locked in the order of their ids, so that no two statements wait for each other.
const (
	renewLeases = "UPDATE leases AS l SET expires_at = clock_timestamp() + l.ttl * interval '1 second' FROM " +
		"(SELECT id FROM leases WHERE id = ANY ($1::bigint[]) AND expires_at > clock_timestamp() ORDER BY id FOR UPDATE) AS n " +
		"WHERE l.id = n.id RETURNING l.id, l.ttl"
	extendLeases = "UPDATE leases AS l SET expires_at = clock_timestamp() + l.ttl * interval '1 second' FROM " +
		"(SELECT id FROM leases ORDER BY id FOR UPDATE) AS n WHERE l.id = n.id"
	expiredLeases = "SELECT id FROM leases WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT $1::bigint"
)

// RenewLeases implements [backend.Shared].
func (b *Backend) RenewLeases(ctx context.Context, ids []int64) (renewed []backend.Lease, err error) {
	err = b.transaction(ctx, "renew leases", func(ctx context.Context, tx pgx.Tx) error {
		renewed = nil
		return scan(ctx, tx.Conn(), func(s *scanner) error {
			renewed = append(renewed, backend.Lease{ID: s.integer(), TTL: time.Duration(s.integer()) * time.Second})
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
	err = b.query(ctx, "look for leases that have ended", func() { ids = nil }, func(s *scanner) error {
		ids = append(ids, s.integer())
		return nil
	}, expiredLeases, int64(limit))
	return ids, err
}
