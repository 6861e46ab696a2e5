package paging

import (
	"context"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/sqlstore/sqlstore/backend"
)

// rotateTries limits how often another process may win the race to add a key.
const rotateTries = 10

// Rotate adds a key, which seals all new tokens, and returns its id. If revoke is set, it drops the older keys: other
// processes refuse their tokens within a minute. Errors: those of the backend.
func Rotate(ctx context.Context, keys backend.TokenKeys, revoke bool) (id int64, err error) {
	for range rotateTries {
		all, err := keys.TokenKeys(ctx)
		if err != nil {
			return 0, err
		}
		id = 1
		if n := len(all); n > 0 {
			id = all[n-1].ID + 1
		}
		if err = keys.AddTokenKey(ctx, id-1, random(chacha20poly1305.KeySize)); err == nil {
			break
		}
		if !errors.Is(err, backend.ErrConflict) {
			return 0, err
		}
		id = 0
	}
	if id == 0 {
		return 0, backend.ErrConflict
	}
	if revoke {
		err = keys.DropTokenKeys(ctx, id)
	}
	return id, err
}
