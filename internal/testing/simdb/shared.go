package simdb

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

var _ backend.Shared = (*Client)(nil)

func headOf(s *server, st *state) backend.Head {
	return backend.Head{Clock: st.clock, Batch: st.batch, Alarms: st.alarms, Origin: s.origin()}
}

// Head implements [backend.Shared].
func (b *Client) Head(ctx context.Context) (h backend.Head, err error) {
	err = b.read(ctx, "head", func(s *server, st *state) error { h = headOf(s, st); return nil })
	return h, err
}

// Tail implements [backend.Shared].
func (b *Client) Tail(ctx context.Context, q backend.TailQuery) (t backend.Tail, err error) {
	err = b.read(ctx, "tail", func(s *server, st *state) error {
		t = st.tail(q)
		t.Origin = s.origin()
		return nil
	})
	return t, err
}

// confirmTries is how many servers a confirmation tries.
const confirmTries = 2

// Confirm implements [backend.Shared].
func (b *Client) Confirm(ctx context.Context, m backend.Member) (h backend.Head, err error) {
	if err := b.usable(ctx); err != nil {
		return h, err
	}
	for range confirmTries {
		if h, err = b.confirm(ctx, m); err == nil || ctx.Err() != nil {
			break
		}
		b.reset()
	}
	return h, b.translate(ctx, "confirm that the server is the primary", err)
}

// errAbsent ends a confirmation of a member that others consider dead.
var errAbsent = errors.New("the member is gone")

// confirm adds m to the members again only after it has seen that m is gone, like package postgres.
func (b *Client) confirm(ctx context.Context, m backend.Member) (backend.Head, error) {
	confirmation := func(add bool) work[backend.Head] {
		return work[backend.Head]{step: func(s *server, st *state, now time.Time) (backend.Head, error) {
			if _, known := st.members.Get(m.ID); !known {
				if !add {
					return backend.Head{}, errAbsent
				}
				st.members.Set(m.ID, member{m, now})
			}
			return headOf(s, s.visible), nil
		}}
	}
	h, err := write(ctx, b, "confirm", confirmTimeout, confirmation(false))
	if errors.Is(err, errAbsent) {
		h, err = write(ctx, b, "confirm", confirmTimeout, confirmation(true))
	}
	return h, err
}

// RaiseEpoch implements [backend.Shared].
func (b *Client) RaiseEpoch(ctx context.Context, known backend.Clock, batch int64) (backend.Clock, error) {
	return write(ctx, b, "raise epoch", beginTimeout, work[backend.Clock]{
		take: func(ctx context.Context, x *transaction) error { return x.acquire(ctx, clockLock) },
		step: func(_ *server, st *state, _ time.Time) (backend.Clock, error) {
			st.raiseEpoch(known, batch)
			return st.clock, nil
		},
	})
}

// LeaseStates implements [backend.Shared].
func (b *Client) LeaseStates(
	ctx context.Context, ids []int64,
) (states []backend.LeaseState, origin backend.Origin, err error) {
	err = b.read(ctx, "lease states", func(s *server, st *state) error {
		states, origin = st.leaseStates(ids, s.now()), s.origin()
		return nil
	})
	return states, origin, err
}

// RenewLeases implements [backend.Shared].
func (b *Client) RenewLeases(ctx context.Context, ids []int64) ([]backend.Lease, error) {
	return write(ctx, b, "renew", beginTimeout, work[[]backend.Lease]{
		trips: 3,
		take:  func(ctx context.Context, x *transaction) error { return x.leases(ctx, ids) },
		step:  func(_ *server, st *state, now time.Time) ([]backend.Lease, error) { return st.renew(ids, now), nil },
	})
}

// ExpiredLeases implements [backend.Shared].
func (b *Client) ExpiredLeases(ctx context.Context, limit int) (ids []int64, err error) {
	err = b.read(ctx, "expired leases", func(s *server, st *state) error {
		ids = st.expired(limit, s.now())
		return nil
	})
	return ids, err
}

// Heartbeat implements [backend.Shared].
func (b *Client) Heartbeat(
	ctx context.Context, m backend.Member, timeout, silence time.Duration,
) (backend.Membership, error) {
	return write(ctx, b, "heartbeat", beginTimeout, work[backend.Membership]{
		trips: 7,
		take:  func(ctx context.Context, x *transaction) error { return x.acquire(ctx, maintenanceLock) },
		late: func(ctx context.Context, x *transaction) error {
			c := x.run.server.cluster
			c.mu.Lock()
			begins := x.run.server.head.extends(m.ID, timeout, silence, x.run.server.now())
			c.mu.Unlock()
			if !begins {
				return nil
			}
			return x.extension(ctx, true)
		},
		step: func(_ *server, st *state, now time.Time) (backend.Membership, error) {
			return st.heartbeat(m, timeout, silence, now), nil
		},
	})
}

// extension locks what an extension resets next, from the first lease on if it begins.
func (x *transaction) extension(ctx context.Context, begins bool) error {
	if err := x.acquire(ctx, extensionLock); err != nil {
		return err
	}
	c := x.run.server.cluster
	c.mu.Lock()
	st, next := x.run.server.visible, int64(math.MinInt64)
	if !begins && st.next != nil {
		next = *st.next
	}
	ids := st.part(next)
	c.mu.Unlock()
	return x.leases(ctx, ids)
}

// ExtendLeases implements [backend.Shared].
func (b *Client) ExtendLeases(ctx context.Context) (done bool, err error) {
	return write(ctx, b, "extend leases", beginTimeout, work[bool]{
		trips: 5,
		take:  func(ctx context.Context, x *transaction) error { return x.extension(ctx, false) },
		step:  func(_ *server, st *state, now time.Time) (bool, error) { return st.extend(now), nil },
	})
}

// Leave implements [backend.Shared].
func (b *Client) Leave(ctx context.Context, id uint64) error {
	_, err := write(ctx, b, "leave", beginTimeout, work[struct{}]{
		take: func(ctx context.Context, x *transaction) error { return x.acquire(ctx, maintenanceLock) },
		step: func(_ *server, st *state, _ time.Time) (struct{}, error) {
			if st.holder == id {
				st.holder = 0
			}
			st.members.Delete(id)
			return struct{}{}, nil
		},
	})
	return err
}

// Pin implements [backend.Shared].
func (b *Client) Pin(ctx context.Context, revision int64, d time.Duration) (id int64, err error) {
	return write(ctx, b, "pin", beginTimeout, work[int64]{
		take: func(ctx context.Context, x *transaction) error { return x.acquire(ctx, purgeLock) },
		step: func(s *server, st *state, now time.Time) (int64, error) {
			if s.visible.clock.Compacted > revision {
				return 0, backend.ErrCompacted
			}
			s.cluster.pins++
			st.pins.Set(s.cluster.pins, pin{revision, now.Add(d)})
			return s.cluster.pins, nil
		},
	})
}

// Renew implements [backend.Shared].
func (b *Client) Renew(ctx context.Context, id int64, d time.Duration) error {
	_, err := write(ctx, b, "renew", beginTimeout, work[struct{}]{
		step: func(_ *server, st *state, now time.Time) (struct{}, error) {
			p, ok := st.pins.Get(id)
			if !ok {
				return struct{}{}, backend.ErrCompacted
			}
			st.pins.Set(id, pin{p.revision, now.Add(d)})
			return struct{}{}, nil
		},
	})
	return err
}

// Release implements [backend.Shared].
func (b *Client) Release(ctx context.Context, id int64) error {
	_, err := write(ctx, b, "release", beginTimeout, work[struct{}]{
		step: func(_ *server, st *state, _ time.Time) (struct{}, error) {
			st.pins.Delete(id)
			return struct{}{}, nil
		},
	})
	return err
}
