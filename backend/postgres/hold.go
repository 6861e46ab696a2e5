package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// lockPurge keeps rows from being removed, and holds from being made meanwhile.
	lockPurge  = "SELECT target, next_version, next_ordinal FROM purge WHERE id = 1 FOR UPDATE"
	insertHold = "INSERT INTO holds (id, revision, expires_at) " +
		"SELECT $1::bigint, $2::bigint, clock_timestamp() + $3::bigint * interval '1 microsecond' FROM clock WHERE compacted <= $2::bigint"
	deleteHold = "DELETE FROM holds WHERE id = $1::bigint"
)

// Hold implements [backend.Shared].
func (b *Backend) Hold(ctx context.Context, revision int64, d time.Duration) (id int64, err error) {
	id = rand.Int64()
	err = b.transaction(ctx, "hold off the removal of rows", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPurge); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, insertHold, id, revision, d.Microseconds())
		if err == nil && tag.RowsAffected() == 0 {
			err = backend.ErrCompacted
		}
		return err
	})
	return id, err
}

// Release implements [backend.Shared].
func (b *Backend) Release(ctx context.Context, id int64) error {
	return b.transaction(ctx, "end a hold", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, deleteHold, id)
		return err
	})
}
