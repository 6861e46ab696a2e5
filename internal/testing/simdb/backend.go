package simdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// emptySize is the space that a database without rows takes.
const emptySize = 32 << 10

// Clock implements [backend.Backend].
func (b *Client) Clock(ctx context.Context) (clock backend.Clock, err error) {
	err = b.read(ctx, "clock", func(_ *server, st *state) error { clock = st.clock; return nil })
	return clock, err
}

// Range implements [backend.Backend].
func (b *Client) Range(ctx context.Context, q backend.RangeQuery) (rows []backend.Row, clock backend.Clock, err error) {
	err = b.read(ctx, "range", func(_ *server, st *state) error {
		rows, clock = st.rangeOf(q), st.underPin(q.Pin)
		return nil
	})
	return rows, clock, err
}

// Count implements [backend.Backend].
func (b *Client) Count(ctx context.Context, q backend.RangeQuery) (n int64, clock backend.Clock, err error) {
	err = b.read(ctx, "count", func(_ *server, st *state) error {
		n, clock = st.count(q), st.underPin(q.Pin)
		return nil
	})
	return n, clock, err
}

// Rows implements [backend.Backend].
func (b *Client) Rows(
	ctx context.Context, ids []backend.RowID, bytes int64,
) (rows []backend.Row, clock backend.Clock, err error) {
	err = b.read(ctx, "rows", func(_ *server, st *state) error {
		rows, clock = st.rowsOf(ids, bytes), st.clock
		return nil
	})
	return rows, clock, err
}

// History implements [backend.Backend].
func (b *Client) History(ctx context.Context, q backend.HistoryQuery) (h backend.History, err error) {
	err = b.read(ctx, "history", func(_ *server, st *state) error { h = st.history(q); return nil })
	return h, err
}

// Digests implements [backend.Backend].
func (b *Client) Digests(ctx context.Context, q backend.DigestQuery) (d backend.Digests, err error) {
	err = b.read(ctx, "digests", func(_ *server, st *state) error { d = st.digests(q); return nil })
	return d, err
}

// Superseded implements [backend.Backend].
func (b *Client) Superseded(
	ctx context.Context, q backend.SupersededQuery,
) (ids []backend.RowID, clock backend.Clock, err error) {
	err = b.read(ctx, "superseded", func(_ *server, st *state) error {
		ids, clock = st.supersededOf(q), st.underPin(q.Pin)
		return nil
	})
	return ids, clock, err
}

// Leases implements [backend.Backend].
func (b *Client) Leases(ctx context.Context) ([]backend.Lease, error) {
	states, _, err := b.LeaseStates(ctx, nil)
	var leases []backend.Lease
	for _, s := range states {
		leases = append(leases, s.Lease)
	}
	return leases, err
}

// Alarms implements [backend.Backend].
func (b *Client) Alarms(ctx context.Context) (alarms []backend.Alarm, err error) {
	err = b.read(ctx, "alarms", func(_ *server, st *state) error {
		alarms = slices.Clone(st.raised)
		return nil
	})
	return alarms, err
}

// Purge implements [backend.Backend].
func (b *Client) Purge(ctx context.Context, limit int, until int64) (backend.PurgeResult, error) {
	return write(ctx, b, "purge", beginTimeout, work[backend.PurgeResult]{
		take: func(ctx context.Context, x *transaction) error { return x.acquire(ctx, purgeLock) },
		step: func(s *server, st *state, now time.Time) (backend.PurgeResult, error) {
			return st.purgeStep(max(limit, 1), s.visible.clock.Compacted, until, now), nil
		},
	})
}

// Reclaim implements [backend.Backend].
func (b *Client) Reclaim(ctx context.Context, _ int) (done bool, took time.Duration, err error) {
	return true, 0, b.usable(ctx)
}

// Defragment implements [backend.Backend].
func (b *Client) Defragment(ctx context.Context) error { return b.usable(ctx) }

// Size implements [backend.Backend].
func (b *Client) Size(ctx context.Context) (size backend.Size, err error) {
	err = b.read(ctx, "size", func(_ *server, st *state) error {
		size = backend.Size{Total: st.bytes + emptySize, InUse: st.bytes + emptySize}
		return nil
	})
	return size, err
}

// TokenKeys implements [backend.TokenKeys].
func (b *Client) TokenKeys(ctx context.Context) (keys []backend.TokenKey, err error) {
	err = b.read(ctx, "token keys", func(_ *server, st *state) error { keys = st.tokens.Values(); return nil })
	return keys, err
}

// AddTokenKey implements [backend.TokenKeys].
func (b *Client) AddTokenKey(ctx context.Context, last int64, key []byte) error {
	_, err := write(ctx, b, "add token key", beginTimeout, work[struct{}]{
		step: func(_ *server, st *state, now time.Time) (struct{}, error) {
			if !st.addToken(last, key, now) {
				return struct{}{}, fmt.Errorf("add a token key: %w", backend.ErrConflict)
			}
			return struct{}{}, nil
		},
	})
	return err
}

// DropTokenKeys implements [backend.TokenKeys].
func (b *Client) DropTokenKeys(ctx context.Context, below int64) error {
	_, err := write(ctx, b, "drop token keys", beginTimeout, work[struct{}]{
		step: func(_ *server, st *state, _ time.Time) (struct{}, error) {
			st.dropTokens(below)
			return struct{}{}, nil
		},
	})
	return err
}
