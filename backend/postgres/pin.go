package postgres

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// lockPurge keeps rows from being removed, and pins from being made meanwhile.
	lockPurge = "SELECT target, next_version, next_ordinal FROM purge WHERE id = 1 FOR UPDATE"
	insertPin = "INSERT INTO holds (id, revision, expires_at) " +
		"SELECT $1::bigint, $2::bigint, clock_timestamp() + $3::bigint * interval '1 microsecond'" +
		fromClock + " WHERE c.compacted <= $2::bigint"
	deletePin = "DELETE FROM holds WHERE id = $1::bigint"
)

// Pin implements [backend.Shared].
//
// It and purges take turns, and it refuses a revision that is compacted: so what the pin keeps is there when it is
// made, and every purge behind it finds it, or removes it first. A snapshot that shows a pin therefore shows what it
// keeps, on whichever server: one that a failover made the primary has committed less than the one before it, but
// nothing in another order.
func (b *Backend) Pin(ctx context.Context, revision int64, d time.Duration) (id int64, err error) {
	id = 1 + rand.Int64N(math.MaxInt64)
	err = b.reads.transaction(ctx, "pin a revision", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPurge); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, insertPin, id, revision, d.Microseconds())
		if err == nil && tag.RowsAffected() == 0 {
			err = backend.ErrCompacted
		}
		return err
	})
	return id, err
}

// Release implements [backend.Shared].
func (b *Backend) Release(ctx context.Context, id int64) error {
	return b.reads.transaction(ctx, "end a pin", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, deletePin, id)
		return err
	})
}

// underPin has a query that begins with the clock report it as [backend.Shared] promises to those who rely on a pin.
func underPin(pin int64, sql string, args []any) (string, []any) {
	if pin == 0 {
		return sql, args
	}
	args = append(args, pin)
	// LEAST leaves out NULL, which is what there is without the pin.
	clock := fmt.Sprintf("c.revision, LEAST(c.compacted, (SELECT h.revision FROM holds AS h WHERE h.id = "+
		"$%d::bigint)), c.incarnation", len(args))
	return strings.Replace(sql, clockColumns, clock, 1), args
}
