package backend

import (
	"context"
	"time"
)

// TokenKey is a secret key that seals continue tokens. All processes that share a database share its keys: the key with
// the highest ID seals tokens, and every key opens the tokens that it sealed.
type TokenKey struct {
	ID      int64
	Key     []byte    // 32 random bytes
	Created time.Time // by the database's clock, in whole seconds
}

// TokenKeys is the part of a [Backend] that stores the keys of continue tokens.
type TokenKeys interface {
	// TokenKeys returns all keys, oldest first.
	TokenKeys(ctx context.Context) ([]TokenKey, error)
	// AddTokenKey stores a key under the ID last+1, where last is the highest existing ID, or 0 if there is none.
	// Errors: [ErrConflict] when last is not the highest ID, because another process added a key first.
	AddTokenKey(ctx context.Context, last int64, key []byte) error
	// DropTokenKeys deletes the keys with an ID less than below; their tokens can no longer be opened. The newest key
	// always stays, so that no ID is assigned twice.
	DropTokenKeys(ctx context.Context, below int64) error
}
