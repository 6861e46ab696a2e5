package backendtest

import (
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

func leaseIDs(states []backend.LeaseState) (ids []int64) {
	for _, s := range states {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	return ids
}

func testSharedLeases(p *pair) {
	short, long := backend.Lease{ID: 1, TTL: time.Second}, backend.Lease{ID: -2, TTL: time.Hour}
	p.apply(&backend.Effects{Granted: []backend.Lease{short, long}})
	states, origin, err := p.other.LeaseStates(p.ctx, nil)
	p.ok(err)
	if !slices.Equal(leaseIDs(states), []int64{-2, 1}) {
		p.Fatalf("leases %+v", states)
	}
	p.fromPrimary("leases", origin)
	for _, s := range states {
		if s.Remaining > s.TTL || s.ID == long.ID && s.Remaining < s.TTL-time.Minute {
			p.Errorf("lease %+v", s)
		}
	}
	if none, origin, err := p.other.LeaseStates(p.ctx, []int64{99}); err != nil || len(none) > 0 {
		p.Errorf("a lease that does not exist: %+v, %v", none, err)
	} else {
		p.fromPrimary("no leases", origin)
	}
	one, _, err := p.other.LeaseStates(p.ctx, []int64{1, 99})
	p.ok(err)
	if !slices.Equal(leaseIDs(one), []int64{1}) {
		p.Errorf("lease 1: %+v", one)
	}
	p.until("lease 1 ends", func() bool {
		ids, err := p.other.ExpiredLeases(p.ctx, 10)
		p.ok(err)
		return slices.Equal(ids, []int64{1})
	})
	renewed, err := p.other.RenewLeases(p.ctx, []int64{1, -2, 99})
	p.ok(err)
	if !slices.Equal(renewed, []backend.Lease{long}) {
		p.Errorf("renewed %+v", renewed)
	}
	tx, err := p.a.Begin(p.ctx, backend.Needs{Leases: []int64{1, -2, 99}})
	p.ok(err)
	states = tx.Loaded().Leases
	tx.Rollback()
	if len(states) != 2 || states[0].ID != -2 || states[0].Remaining <= 0 || states[1].ID != 1 ||
		states[1].Remaining > 0 {
		p.Errorf("leases in a transaction: %+v", states)
	}
	_, err = p.other.Heartbeat(p.ctx, backend.Member{ID: 7}, time.Hour, time.Nanosecond)
	p.ok(err)
	if renewed, err := p.a.RenewLeases(p.ctx, []int64{1}); err != nil ||
		!slices.Equal(renewed, []backend.Lease{short}) {
		p.Errorf("renewed %+v after all were extended, %v", renewed, err)
	}
}

// testEndingLeases starts to revoke a lease, which nothing revives.
func testEndingLeases(p *pair) {
	l := backend.Lease{ID: 1, TTL: time.Hour}
	p.apply(&backend.Effects{Granted: []backend.Lease{l}})
	for range 2 {
		p.apply(&backend.Effects{Ending: []int64{1, 99}})
		if renewed, err := p.other.RenewLeases(p.ctx, []int64{1}); err != nil || len(renewed) != 0 {
			p.Errorf("renewed %+v, %v", renewed, err)
		}
		if ids, err := p.other.ExpiredLeases(p.ctx, 10); err != nil || !slices.Equal(ids, []int64{1}) {
			p.Errorf("leases that have ended: %v, %v", ids, err)
		}
		states, _, err := p.other.LeaseStates(p.ctx, nil)
		if err != nil || len(states) != 1 || !states[0].Ending || states[0].TTL != l.TTL || states[0].Remaining > 0 {
			p.Errorf("leases %+v, %v", states, err)
		}
		// renews all leases
		_, err = p.other.Heartbeat(p.ctx, backend.Member{ID: 7}, time.Hour, time.Nanosecond)
		p.ok(err)
		p.until("the leases have their time again", func() bool {
			done, err := p.other.ExtendLeases(p.ctx)
			p.ok(err)
			return done
		})
	}
}

// testLockedLeases revokes a lease while another process renews it: the renewal is too late.
func testLockedLeases(p *pair) {
	p.apply(&backend.Effects{Granted: []backend.Lease{{ID: 1, TTL: time.Hour}}})
	tx, err := p.a.Begin(p.ctx, backend.Needs{Leases: []int64{1}})
	p.ok(err)
	renewed := make(chan []backend.Lease, 1)
	go func() {
		got, err := p.other.RenewLeases(p.ctx, []int64{1})
		if err != nil {
			p.Error(err)
		}
		renewed <- got
	}()
	select {
	case got := <-renewed:
		p.Errorf("renewed %+v while it was locked", got)
		renewed <- nil
	case <-time.After(100 * time.Millisecond):
	}
	p.ok(tx.Commit(p.ctx, &backend.Effects{Revoked: []int64{1}, Revision: p.m.clock.Revision}))
	if got := <-renewed; len(got) != 0 {
		p.Errorf("renewed %+v after it was revoked", got)
	}
}

func testHeartbeat(p *pair) {
	const timeout = time.Hour
	a := backend.Member{ID: 7, Name: "a", ClientURLs: []string{"http://a:2379", "https://b,c:1"}}
	b := backend.Member{ID: 3, Name: "b"}
	beat := func(s backend.Shared, m backend.Member, timeout time.Duration, leader uint64, acquired bool,
		members ...backend.Member,
	) {
		p.Helper()
		got, err := s.Heartbeat(p.ctx, m, timeout, time.Hour)
		p.ok(err)
		equal := slices.EqualFunc(got.Members, members, func(x, y backend.Member) bool {
			return x.ID == y.ID && x.Name == y.Name && slices.Equal(x.ClientURLs, y.ClientURLs)
		})
		if !equal || got.Leader != leader || got.Acquired != acquired || got.Silence < 0 || got.Silence > time.Minute {
			p.Errorf("heartbeat of %s: %+v; want leader %d, acquired %t, members %+v", m.Name, got, leader, acquired,
				members)
		}
	}
	beat(p.a, a, timeout, 7, true, a)
	beat(p.other, b, timeout, 7, false, b, a)
	beat(p.a, a, timeout, 7, false, b, a)
	p.ok(p.a.Leave(p.ctx, 7))
	beat(p.other, b, timeout, 3, true, b)
	beat(p.a, a, timeout, 3, false, b, a)
	// A member without a heartbeat for longer than the other's timeout is dead, and lives again with its next one.
	beat(p.a, a, time.Nanosecond, 7, true, a)
	beat(p.other, b, timeout, 7, false, b, a)
	first, err := p.a.Heartbeat(p.ctx, a, timeout, time.Hour)
	p.ok(err)
	p.until("silence grows", func() bool {
		select {
		case <-time.After(first.Silence + 50*time.Millisecond):
		case <-p.ctx.Done():
		}
		got, err := p.other.Heartbeat(p.ctx, b, timeout, time.Hour)
		p.ok(err)
		return got.Silence >= 50*time.Millisecond
	})
}
