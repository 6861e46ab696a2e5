package store

import (
	"context"
	"errors"

	"github.com/sqlstore/sqlstore/backend"
)

// History returns the versions of a key after a revision, tombstones included, up to limit of them or about bytes
// bytes. With a negative revision, it returns all that are left: these begin with the one that was current at the
// compacted revision, if there was one. Errors: [ErrCompacted] if the revision is below the compacted one, those of
// [auth.State.CanRead], [backend.ErrOtherEpoch], [backend.ErrServerBehind], those of the backend.
func (s *Store) History(ctx context.Context, key []byte, after int64, limit int, bytes int64) (backend.History, error) {
	state, err := s.admit(ctx, false)
	if err != nil {
		return backend.History{}, err
	}
	if err := mayRead(ctx, state, key, nil); err != nil {
		return backend.History{}, err
	}
	var h backend.History
	if after >= 0 {
		h, err = s.historyAfter(ctx, key, after, limit, bytes)
	} else {
		h, err = s.wholeHistory(ctx, key, limit, bytes)
	}
	if now := s.Auth(); err == nil && now != state {
		err = mayRead(ctx, now, key, nil)
	}
	if err != nil {
		return backend.History{}, err
	}
	return h, nil
}

func (s *Store) historyAfter(
	ctx context.Context, key []byte, after int64, limit int, bytes int64,
) (backend.History, error) {
	at := s.index.Position()
	h, err := s.backend.History(ctx, backend.HistoryQuery{
		After: after, Span: backend.Span{Start: key}, Limit: limit, Bytes: bytes,
	})
	switch {
	case err != nil:
		return h, err
	case h.Clock.Epoch != at.Epoch:
		return h, backend.ErrOtherEpoch
	case h.Clock.Revision < at.Revision:
		return h, backend.ErrServerBehind
	}
	return h, h.Clock.Check(after)
}

// wholeHistory returns a history of everything that is left. It begins again if there was a compaction meanwhile,
// perhaps by another replica. Errors: those of [Store.History].
func (s *Store) wholeHistory(ctx context.Context, key []byte, limit int, bytes int64) (h backend.History, err error) {
	for last := int64(-1); ; {
		clock, err := s.backend.Clock(ctx)
		if err != nil {
			return h, err
		}
		h, err = s.historyFrom(ctx, clock, key, limit, bytes)
		if !errors.Is(err, ErrCompacted) || clock.Compacted <= last {
			return h, err
		}
		last = clock.Compacted
	}
}

// historyFrom returns a history that begins at the compacted revision of a clock. Errors: those of [Store.History].
func (s *Store) historyFrom(
	ctx context.Context, clock backend.Clock, key []byte, limit int, bytes int64,
) (h backend.History, err error) {
	if clock.Compacted <= 0 {
		return s.historyAfter(ctx, key, 0, limit, bytes)
	}
	res, err := s.Range(ctx, &RangeRequest{Key: key, Revision: clock.Compacted})
	if err != nil {
		return h, err
	}
	if limit -= len(res.Rows); limit > 0 {
		h, err = s.historyAfter(ctx, key, clock.Compacted, limit, bytes)
	} else {
		h = backend.History{Clock: clock, Through: clock.Compacted}
	}
	for _, r := range res.Rows {
		h.Changes = append([]backend.Change{{Row: *r}}, h.Changes...)
	}
	return h, err
}
