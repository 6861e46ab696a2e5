package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const readBatch = "SELECT batch FROM object_versions WHERE resource_version = $1::bigint ORDER BY ordinal LIMIT 1"

var raiseEpoch = exactlyOne("UPDATE clock SET incarnation = $1::bigint WHERE id = 1 AND turn = $2::bigint >> 6")

// RaiseEpoch implements [backend.Shared].
func (b *Backend) RaiseEpoch(ctx context.Context, known backend.Clock, batch int64) (clock backend.Clock, err error) {
	err = b.control.transaction(ctx, "look whether history was lost", func(ctx context.Context, tx pgx.Tx) error {
		clock = backend.Clock{}
		err := scan(ctx, tx.Conn(), func(s *scanner) error { clock = s.clock(); return nil }, b.features.lock, nil)
		if err == nil {
			err = found(clock)
		}
		if err != nil || clock.Epoch > known.Epoch {
			return err
		}
		if clock.Epoch == known.Epoch {
			there := int64(0) // 0: no row of that revision is left, or there never was one, so it proves nothing
			err = scan(ctx, tx.Conn(), func(s *scanner) error { there = s.integer(); return nil }, readBatch,
				[]any{known.Revision})
			if err != nil || clock.Revision >= known.Revision && (there == 0 || there == batch) {
				return err
			}
		}
		// The new epoch is above the known one, so that nobody mistakes it for an epoch seen before, and no client sees
		// its raft term decrease.
		clock.Epoch = known.Epoch + 1
		_, err = tx.Exec(ctx, raiseEpoch, clock.Epoch, clock.Revision)
		return err
	})
	return clock, err
}
