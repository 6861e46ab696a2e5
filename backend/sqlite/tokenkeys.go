package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// TokenKeys implements [backend.TokenKeys].
func (b *Backend) TokenKeys(ctx context.Context) (keys []backend.TokenKey, err error) {
	_, err = b.read(ctx, "read token keys", func(c *conn) error {
		return c.each(context.Background(), readTokenKeys, func(row []driver.Value) bool {
			key, _ := row[1].([]byte)
			keys = append(keys, backend.TokenKey{ID: integer(row[0]), Key: key, Created: time.Unix(integer(row[2]), 0)})
			return true
		})
	})
	return keys, err
}

// AddTokenKey implements [backend.TokenKeys].
func (b *Backend) AddTokenKey(ctx context.Context, last int64, key []byte) error {
	added, err := b.change(ctx, "add a token key", addTokenKey, last, key)
	if err == nil && added == 0 {
		err = fmt.Errorf("add a token key: %w", backend.ErrConflict)
	}
	return err
}

// DropTokenKeys implements [backend.TokenKeys].
func (b *Backend) DropTokenKeys(ctx context.Context, below int64) error {
	_, err := b.change(ctx, "drop token keys", dropTokenKeys, below)
	return err
}

// change runs one statement in a separate transaction, which does not move the clock, and returns how many rows it
// changed.
func (b *Backend) change(ctx context.Context, doing string, id statement, args ...driver.Value) (n int64, err error) {
	if err := b.acquireWriter(ctx); err != nil {
		return 0, err
	}
	defer b.releaseWriter()
	err = b.write(doing, func(c *conn) error {
		n, err = c.run(id, args...)
		return err
	})
	return n, err
}
