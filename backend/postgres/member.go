package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// lockMaintenance serializes heartbeats. It measures the silence up to the time that it stores, so that a step of
	// the clock during a heartbeat shows in this heartbeat or in the next one.
	lockMaintenance = "WITH was AS (SELECT holder, heard_at FROM maintenance WHERE id = 1 FOR UPDATE), " +
		"is_now AS (UPDATE maintenance AS m SET heard_at = clock_timestamp() FROM was WHERE m.id = 1 " +
		"RETURNING m.heard_at) " +
		"SELECT was.holder, (extract(epoch FROM is_now.heard_at - was.heard_at) * 1000000)::bigint, " +
		"(SELECT x.next_lease IS NOT NULL FROM lease_extension AS x WHERE x.id = 1), " +
		"EXISTS (SELECT FROM purge AS p WHERE p.id = 1), " + weakOf + " FROM was, is_now"
	// dropDead also drops members that were seen in the future: the clock was stepped back, and a dead one would stay
	// until then. A live one returns with its next heartbeat.
	dropDead = "DELETE FROM members WHERE id <> $1::bigint AND (seen_at <= clock_timestamp() - $2::bigint * " +
		"interval '1 microsecond' OR seen_at > clock_timestamp() + $2::bigint * interval '1 microsecond')"
	upsertMember = "INSERT INTO members (id, name, client_urls, seen_at) " +
		"VALUES ($1::bigint, $2::text, $3::text[], clock_timestamp()) " +
		"ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, client_urls = EXCLUDED.client_urls, seen_at = " +
		"EXCLUDED.seen_at"
	// touchMember writes a member's row without changing it. It does not bring back a member that has left.
	touchMember = "UPDATE members SET seen_at = seen_at WHERE id = $1::bigint RETURNING id"
	// readMembers returns a row for each URL of a member, or one row without a URL.
	readMembers = "SELECT m.id, m.name, u.url FROM members AS m LEFT JOIN LATERAL unnest(m.client_urls) WITH " +
		"ORDINALITY AS u(url, place) ON true ORDER BY m.id, u.place"
	holdMaintenance = "UPDATE maintenance SET holder = $1::bigint WHERE id = 1"
	leaveMembers    = "DELETE FROM members WHERE id = $1::bigint"
	freeMaintenance = "UPDATE maintenance SET holder = 0 WHERE id = 1 AND holder = $1::bigint"
)

// Heartbeat implements [backend.Shared].
func (b *Backend) Heartbeat(
	ctx context.Context, m backend.Member, timeout, silence time.Duration,
) (ms backend.Membership, err error) {
	var origin backend.Origin
	var ends time.Time // when the commit began, or earlier
	err = b.control.transaction(ctx, "heartbeat", func(ctx context.Context, tx pgx.Tx) error {
		ms, origin = backend.Membership{}, backend.Origin{}
		there := false
		err := scan(ctx, tx.Conn(), func(s *scanner) error {
			there = true
			ms.Leader, ms.Silence = uint64(s.integer()), microseconds(s.integer()).Abs()
			if s.null() {
				return errNoExtension
			}
			ms.Extending = s.boolean()
			if purge := s.boolean(); !purge {
				return errNoPurge
			}
			b.noteWeak(s.text())
			return nil
		}, lockMaintenance, nil)
		if err == nil && !there {
			err = errNoMaintenance
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, dropDead, int64(m.ID), timeout.Microseconds()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, upsertMember, memberRow(m)...); err != nil {
			return err
		}
		err = scan(ctx, tx.Conn(), func(s *scanner) error { addMember(&ms, s); return nil }, readMembers, nil)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(ms.Members, func(m backend.Member) bool { return m.ID == ms.Leader }) {
			ms.Leader, ms.Acquired = m.ID, true
		}
		if ms.Acquired || ms.Silence >= silence {
			if _, err := tx.Exec(ctx, moveExtension, int64(math.MinInt64)); err != nil {
				return err
			}
			done, err := extendPart(ctx, tx)
			if err != nil {
				return err
			}
			ms.Extending = !done
		}
		ends = time.Now()
		return scan(ctx, tx.Conn(), func(s *scanner) error { origin = s.origin(); return nil }, b.features.beat,
			[]any{int64(ms.Leader)})
	})
	if err == nil {
		b.servers.acknowledged(origin, ends)
	}
	return ms, err
}

// memberRow returns the arguments of upsertMember.
func memberRow(m backend.Member) []any {
	urls := m.ClientURLs
	if urls == nil {
		urls = []string{}
	}
	return []any{int64(m.ID), m.Name, urls}
}

// addMember reads a row of readMembers.
func addMember(ms *backend.Membership, s *scanner) {
	id, name := uint64(s.integer()), s.text()
	if n := len(ms.Members); n == 0 || ms.Members[n-1].ID != id {
		ms.Members = append(ms.Members, backend.Member{ID: id, Name: name})
	}
	if m := &ms.Members[len(ms.Members)-1]; !s.null() {
		m.ClientURLs = append(m.ClientURLs, s.text())
	}
}

// Leave implements [backend.Shared].
func (b *Backend) Leave(ctx context.Context, id uint64) error {
	return b.control.transaction(ctx, "leave", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, freeMaintenance, int64(id)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, leaveMembers, int64(id))
		return err
	})
}
