package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	readTokenKeys = "SELECT id, key, extract(epoch FROM made_at)::bigint FROM token_keys ORDER BY id"
	// addTokenKey adds nothing if the last id is a different one, or if another process is adding the same id.
	addTokenKey = "INSERT INTO token_keys (id, key, made_at) SELECT $1::bigint + 1, $2::bytea, clock_timestamp() " +
		"WHERE $1::bigint = (SELECT COALESCE(max(id), 0) FROM token_keys) ON CONFLICT DO NOTHING"
	dropTokenKeys = "DELETE FROM token_keys WHERE id < $1::bigint AND id < (SELECT max(id) FROM token_keys)"
)

// TokenKeys implements [backend.TokenKeys].
func (b *Backend) TokenKeys(ctx context.Context) (keys []backend.TokenKey, err error) {
	err = b.reads.query(ctx, "read token keys", func() { keys = nil }, func(s *scanner) error {
		keys = append(keys, backend.TokenKey{ID: s.integer(), Key: s.bytes(), Created: time.Unix(s.integer(), 0)})
		return nil
	}, readTokenKeys)
	return keys, err
}

// AddTokenKey implements [backend.TokenKeys].
func (b *Backend) AddTokenKey(ctx context.Context, last int64, key []byte) error {
	added := int64(0)
	err := b.reads.transaction(ctx, "add a token key", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, addTokenKey, last, notNil(key))
		added = tag.RowsAffected()
		return err
	})
	if err == nil && added == 0 {
		err = fmt.Errorf("add a token key: %w", backend.ErrConflict)
	}
	return err
}

// DropTokenKeys implements [backend.TokenKeys].
func (b *Backend) DropTokenKeys(ctx context.Context, below int64) error {
	return b.reads.transaction(ctx, "drop token keys", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, dropTokenKeys, below)
		return err
	})
}
