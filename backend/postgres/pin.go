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
	// lockPurge keeps others from removing rows and from creating pins while it is held.
	lockPurge = "SELECT target, next_version, next_ordinal FROM purge WHERE id = 1 FOR UPDATE"
	insertPin = "INSERT INTO holds (id, revision, expires_at) " +
		"SELECT $1::bigint, $2::bigint, clock_timestamp() + $3::bigint * interval '1 microsecond'" +
		fromClock + " WHERE c.compacted <= $2::bigint"
	renewPin = "UPDATE holds SET expires_at = clock_timestamp() + $2::bigint * interval '1 microsecond' " +
		"WHERE id = $1::bigint"
	deletePin = "DELETE FROM holds WHERE id = $1::bigint"
)

// Pin implements [backend.Shared].
//
// A pin and a purge never run at the same time, and Pin refuses a revision that is compacted. So the rows that the pin
// keeps exist when it is created, and every later purge finds the pin, or removes it first because it has expired. A
// snapshot that shows a pin therefore shows the rows that it keeps, on any server: a server that a failover made the
// primary may lack commits of its predecessor, but has none in a different order.
func (b *Backend) Pin(ctx context.Context, revision int64, d time.Duration) (id int64, err error) {
	id = 1 + rand.Int64N(math.MaxInt64)
	err = b.reads.transaction(ctx, "pin a revision", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := acquirePurge(ctx, tx); err != nil {
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

// Renew implements [backend.Shared]. A purge reads the pins after it has deleted those that have expired, so it finds a
// pin that is renewed at the same moment, or the renewal finds none.
func (b *Backend) Renew(ctx context.Context, id int64, d time.Duration) error {
	return b.reads.transaction(ctx, "renew a pin", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, renewPin, id, d.Microseconds())
		if err == nil && tag.RowsAffected() == 0 {
			err = backend.ErrCompacted
		}
		return err
	})
}

// Release implements [backend.Shared].
func (b *Backend) Release(ctx context.Context, id int64) error {
	return b.reads.transaction(ctx, "end a pin", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, deletePin, id)
		return err
	})
}

// underPin changes a query that begins with the clock so that it reports the clock as [backend.Shared] promises to a
// caller that relies on a pin.
func underPin(pin int64, sql string, args []any) (string, []any) {
	if pin == 0 {
		return sql, args
	}
	args = append(args, pin)
	// LEAST ignores NULL, which is the result if the pin does not exist.
	clock := fmt.Sprintf("c.revision, LEAST(c.compacted, (SELECT h.revision FROM holds AS h WHERE h.id = "+
		"$%d::bigint)), c.incarnation", len(args))
	return strings.Replace(sql, clockColumns, clock, 1), args
}
