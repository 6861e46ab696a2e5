package backend

import (
	"context"
	"time"
)

// TokenKey is a secret that continue tokens are sealed with. All processes that share a database share its keys: the
// one with the greatest ID seals, all of them open.
type TokenKey struct {
	ID   int64
	Key  []byte    // 32 random bytes
	Made time.Time // by the database's clock, in whole seconds
}

// TokenKeys is the part of a [Backend] that keeps the keys of continue tokens.
type TokenKeys interface {
	// TokenKeys returns all keys, oldest first.
	TokenKeys(ctx context.Context) ([]TokenKey, error)
	// AddTokenKey keeps a key under the ID last+1, where last is the greatest ID there is, 0 for none. Errors:
	// [ErrConflict] when last is not that: somebody else was faster.
	AddTokenKey(ctx context.Context, last int64, key []byte) error
	// DropTokenKeys forgets the keys with an ID below this one: their tokens open no more. The newest key stays,
	// whatever its ID: an ID is never given twice.
	DropTokenKeys(ctx context.Context, below int64) error
}
