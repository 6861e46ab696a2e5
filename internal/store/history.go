package store

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

// History returns the versions of a key after a revision, tombstones included, up to limit of them or about bytes
// bytes. Errors: [ErrCompacted] if the revision is below the compacted one, those of [auth.State.CanRead], those of the
// backend.
func (s *Store) History(ctx context.Context, key []byte, after int64, limit int, bytes int64) (backend.History, error) {
	state, err := s.admit(ctx, false)
	if err != nil {
		return backend.History{}, err
	}
	if err := mayRead(ctx, state, key, nil); err != nil {
		return backend.History{}, err
	}
	h, err := s.backend.History(ctx, backend.HistoryQuery{
		After: after, Span: backend.Span{Start: key}, Limit: limit, Bytes: bytes,
	})
	if err == nil {
		err = h.Clock.Check(after)
	}
	if now := s.Auth(); err == nil && now != state {
		err = mayRead(ctx, now, key, nil)
	}
	if err != nil {
		return backend.History{}, err
	}
	return h, nil
}
