package store

import (
	"context"

	"github.com/sqlstore/sqlstore/internal/auth"
)

// keyRule is [auth.State.CanRead] or [auth.State.CanWrite].
type keyRule func(s *auth.State, id auth.Identity, key, end []byte) error

// mayUse reports whether a rule lets the caller use all keys of leases. Errors: those of the rule and of
// [auth.State.Known], [ErrTxnTooLarge], ctx's, those of the backend.
func (s *Store) mayUse(ctx context.Context, leases []int64, rule keyRule) error {
	_, err := s.mayUseFirst(ctx, leases, rule)
	return err
}

// mayUseFirst returns how many of the first leases mayUse accepts, and why it does not accept the next one.
func (s *Store) mayUseFirst(ctx context.Context, leases []int64, rule keyRule) (int, error) {
	if !s.Auth().Enabled() || auth.From(ctx) == auth.Server {
		return len(leases), nil
	}
	state, err := s.ConfirmAuth(ctx)
	if err == nil {
		err = state.Known(auth.From(ctx))
	}
	switch {
	case err != nil:
		return 0, err
	case state.IsAdmin(auth.From(ctx)) == nil:
		return len(leases), nil
	}
	for i, id := range leases {
		keys, _, err := s.knownLeaseKeys(ctx, id)
		if err == nil {
			err = s.mayUseKeys(ctx, keys, rule)
		}
		if err != nil {
			return i, err
		}
	}
	return len(leases), nil
}

// mayUseKeys reports whether a rule lets the caller use keys, which were read before the call.
func (s *Store) mayUseKeys(ctx context.Context, keys [][]byte, rule keyRule) error {
	state := s.Auth() // no older than the keys
	if !state.Enabled() {
		return nil
	}
	as := auth.From(ctx)
	if state.IsAdmin(as) == nil {
		return nil
	}
	for _, key := range keys {
		if err := rule(state, as, key, nil); err != nil {
			return err
		}
	}
	return nil
}
