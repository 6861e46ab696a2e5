package simdb

import (
	"math"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// extensionPart is how many leases one transaction extends. It is small, so that tests with few leases see several
// parts.
const extensionPart = 3

// ahead reports whether an extension in progress has not reached a lease yet.
func (st *state) ahead(id int64) bool { return st.next != nil && id >= *st.next }

func (st *state) leaseState(id int64, l lease, now time.Time) backend.LeaseState {
	s := backend.LeaseState{
		Lease:     backend.Lease{ID: id, TTL: l.ttl, Ending: l.ending},
		Remaining: l.expires.Sub(now),
	}
	if st.ahead(id) && !l.ending {
		s.Remaining = l.ttl
	}
	if l.ending {
		s.Remaining = min(s.Remaining, 0)
	}
	return s
}

// leaseStates returns the leases with these ids, all for nil, in order of their ids.
func (st *state) leaseStates(ids []int64, now time.Time) (states []backend.LeaseState) {
	st.leases.Scan(func(id int64, l lease) bool {
		if ids == nil || slices.Contains(ids, id) {
			states = append(states, st.leaseState(id, l, now))
		}
		return true
	})
	return states
}

// renew renews leases on a state that is being edited.
func (st *state) renew(ids []int64, now time.Time) (renewed []backend.Lease) {
	for _, id := range ids {
		l, ok := st.leases.Get(id)
		if !ok || l.ending || !l.expires.After(now) && !st.ahead(id) {
			continue
		}
		l.expires = now.Add(l.ttl)
		st.leases.Set(id, l)
		renewed = append(renewed, backend.Lease{ID: id, TTL: l.ttl})
	}
	return renewed
}

// expired returns up to limit leases that have ended, in the order of their ends.
func (st *state) expired(limit int, now time.Time) (ids []int64) {
	if st.next != nil {
		return nil
	}
	st.leases.Scan(func(id int64, l lease) bool {
		if !l.expires.After(now) {
			ids = append(ids, id)
		}
		return true
	})
	slices.SortStableFunc(ids, func(a, b int64) int {
		x, _ := st.leases.Get(a)
		y, _ := st.leases.Get(b)
		return x.expires.Compare(y.expires)
	})
	return ids[:min(len(ids), limit)]
}

// part returns the leases that the next part of an extension, from the lease with the id next on, resets.
func (st *state) part(next int64) (ids []int64) {
	st.leases.Ascend(next, func(id int64, _ lease) bool {
		ids = append(ids, id)
		return len(ids) < extensionPart
	})
	return ids
}

// extend resets the next leases to their full TTL, on a state that is being edited, and reports whether those were the
// last.
func (st *state) extend(now time.Time) (done bool) {
	if st.next == nil {
		return true
	}
	ids := st.part(*st.next)
	for _, id := range ids {
		if l, _ := st.leases.Get(id); !l.ending {
			ends := now.Add(l.ttl)
			if st.paused != nil && l.expires.Add(now.Sub(*st.paused)).Before(ends) {
				ends = l.expires.Add(now.Sub(*st.paused))
			}
			l.expires = ends
			st.leases.Set(id, l)
		}
	}
	if len(ids) < extensionPart || ids[len(ids)-1] == math.MaxInt64 {
		st.next, st.paused = nil, nil
		return true
	}
	next := ids[len(ids)-1] + 1
	st.next = &next
	return false
}

// lives reports whether a member has sent a heartbeat recently. One in the future, from before the clock was stepped
// back, does not count.
func (st *state) lives(id uint64, timeout time.Duration, now time.Time) bool {
	m, ok := st.members.Get(id)
	timeout = timeout.Truncate(time.Microsecond)
	return ok && m.seen.After(now.Add(-timeout)) && !m.seen.After(now.Add(timeout))
}

// extends reports whether a heartbeat of a member must begin an extension: it acquires the maintenance lease, or there
// was silence.
func (st *state) extends(id uint64, timeout, silence time.Duration, now time.Time) bool {
	return st.holder != id && !st.lives(st.holder, timeout, now) || now.Sub(st.heard).Abs() >= silence
}

// heartbeat implements [backend.Shared.Heartbeat] on a state that is being edited.
func (st *state) heartbeat(m backend.Member, timeout, silence time.Duration, now time.Time) backend.Membership {
	ms := backend.Membership{Leader: st.holder, Silence: now.Sub(st.heard).Abs(), Extending: st.next != nil}
	begins := st.extends(m.ID, timeout, silence, now)
	for _, id := range st.members.Keys() {
		if id != m.ID && !st.lives(id, timeout, now) {
			st.members.Delete(id)
		}
	}
	st.members.Set(m.ID, member{m, now})
	st.members.Scan(func(_ uint64, o member) bool {
		ms.Members = append(ms.Members, o.Member)
		return true
	})
	if _, lives := st.members.Get(ms.Leader); !lives {
		ms.Leader, ms.Acquired = m.ID, true
	}
	if begins {
		first := int64(math.MinInt64)
		st.next = &first
		ms.Extending = !st.extend(now)
	}
	st.holder, st.heard = ms.Leader, now
	return ms
}
