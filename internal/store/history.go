package store

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

// History returns the versions of a key after a revision, tombstones included, up to limit of them or about bytes
// bytes. Errors: [ErrCompacted] if the revision is below the compacted one, those of [auth.State.CanRead],
// [backend.ErrOtherEpoch], [backend.ErrServerBehind], those of the backend.
func (s *Store) History(ctx context.Context, key []byte, after int64, limit int, bytes int64) (backend.History, error) {
	state, err := s.admit(ctx, false)
	if err != nil {
		return backend.History{}, err
	}
	if err := mayRead(ctx, state, key, nil); err != nil {
		return backend.History{}, err
	}
	at := s.index.Position()
	h, err := s.backend.History(ctx, backend.HistoryQuery{
		After: after, Span: backend.Span{Start: key}, Limit: limit, Bytes: bytes,
	})
	switch {
	case err != nil:
	case h.Clock.Epoch != at.Epoch:
		err = backend.ErrOtherEpoch
	case h.Clock.Revision < at.Revision:
		err = backend.ErrServerBehind
	default:
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
