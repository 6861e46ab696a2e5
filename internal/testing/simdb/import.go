package simdb

import (
	"context"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Import implements [backend.Importing].
func (b *Client) Import(ctx context.Context) (i backend.Import, err error) {
	err = b.read(ctx, "import", func(_ *server, st *state) error {
		i = st.imports
		return nil
	})
	return i, err
}

// SetImport implements [backend.Importing].
func (b *Client) SetImport(ctx context.Context, was, next backend.Import, clusterID uint64) error {
	_, err := write(ctx, b, "set import", beginTimeout, work[struct{}]{
		take: func(ctx context.Context, x *transaction) error { return x.acquire(ctx, clockLock) },
		step: func(_ *server, st *state, _ time.Time) (struct{}, error) {
			if st.imports != was {
				return struct{}{}, backend.ErrTakenOver
			}
			st.imports = next
			return struct{}{}, nil
		},
	})
	if err == nil && clusterID != 0 {
		b.cluster.mu.Lock()
		defer b.cluster.mu.Unlock()
		b.cluster.id = clusterID
	}
	return err
}

// SetRemaining implements [backend.Importing].
func (b *Client) SetRemaining(ctx context.Context, was backend.Import, remaining map[int64]time.Duration) error {
	_, err := write(ctx, b, "set remaining", beginTimeout, work[struct{}]{
		take: func(ctx context.Context, x *transaction) error { return x.acquire(ctx, clockLock) },
		step: func(_ *server, st *state, now time.Time) (struct{}, error) {
			if st.imports != was {
				return struct{}{}, backend.ErrTakenOver
			}
			if st.paused = nil; remaining != nil {
				st.paused = &now
			}
			for id, left := range remaining {
				if l, ok := st.leases.Get(id); ok && !l.ending {
					l.expires = now.Add(left)
					st.leases.Set(id, l)
				}
			}
			return struct{}{}, nil
		},
	})
	return err
}

// Remaining implements [backend.Importing].
func (b *Client) Remaining(ctx context.Context) (remaining map[int64]time.Duration, err error) {
	err = b.read(ctx, "remaining", func(_ *server, st *state) error {
		at := st.heard
		if st.paused != nil {
			at = *st.paused
		}
		remaining = map[int64]time.Duration{}
		for _, s := range st.leaseStates(nil, at) {
			remaining[s.ID] = s.Remaining
		}
		return nil
	})
	return remaining, err
}
