package backendtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// sharedTimeout bounds what a test of two backends waits for.
const sharedTimeout = 20 * time.Second

// SharedHooks say what a shared backend cannot do, as it is set up.
type SharedHooks struct {
	// NoHints says that the database sends none: Listen must say so, once.
	NoHints bool
}

// RunShared holds what several processes share to the suite: open makes two backends over one fresh and empty database, and
// registers its own clean-up.
func RunShared(t *testing.T, open func(t *testing.T) (a, b backend.Shared), hooks SharedHooks) {
	for _, c := range []struct {
		name string
		test func(*pair)
	}{
		{"Identities", testIdentities},
		{"BeginExcludesOthers", testBeginExcludesOthers},
		{"BeginIsFresh", testBeginIsFresh},
		{"Head", testHead},
		{"Tail", testTail},
		{"TailInBegin", testTailInBegin},
		{"TailSaysWhatWasPurged", testTailPurged},
		{"RaiseIncarnation", testRaiseIncarnation},
		{"LeasesByTheDatabasesClock", testSharedLeases},
		{"LockedLeasesAreNotRenewed", testLockedLeases},
		{"Heartbeat", testHeartbeat},
		{"HoldsKeepRows", testHolds},
		{"PurgeByBoth", testPurgeByBoth},
		{"Listen", testListen},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
			defer cancel()
			a, b := open(t)
			c.test(&pair{fixture: newFixture(t, a, Hooks{}), ctx: ctx, a: a, other: b, hooks: hooks})
		})
	}
}

// pair is two backends over one database; the fixture writes through the first.
type pair struct {
	*fixture
	ctx   context.Context
	a     backend.Shared
	other backend.Shared
	hooks SharedHooks
}

// ok fails unless err is nil.
func (p *pair) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func testIdentities(p *pair) {
	a, err := p.a.Settings(p.ctx)
	p.ok(err)
	b, err := p.other.Settings(p.ctx)
	p.ok(err)
	if a.ClusterID != b.ClusterID || a.MemberID == b.MemberID || a.MemberID == 0 || b.MemberID == 0 {
		p.Errorf("settings %+v and %+v", a, b)
	}
}

// testBeginExcludesOthers writes through both at once; a revision given twice would be refused or counted once.
func testBeginExcludesOthers(p *pair) {
	const writers, writes = 4, 25
	var wg sync.WaitGroup
	for w := range writers {
		b := []backend.Shared{p.a, p.other}[w%2]
		wg.Go(func() {
			for range writes {
				tx, err := b.Begin(p.ctx, backend.Needs{Keys: [][]byte{[]byte("counter")}})
				if err != nil {
					p.Error(err)
					return
				}
				l := tx.Loaded()
				r := backend.Row{Key: []byte("counter"), Value: []byte{}, ModRevision: l.Clock.Revision + 1, CreateRevision: 2, Version: 1}
				if len(l.Rows) == 1 {
					r.Version, r.PrevRevision = l.Rows[0].Version+1, l.Rows[0].ModRevision
				}
				if err := tx.Commit(p.ctx, &backend.Effects{Rows: []backend.Row{r}, Revision: r.ModRevision, Batch: 1}); err != nil {
					p.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	rows, clock, err := p.a.Range(p.ctx, backend.RangeQuery{Span: only("counter"), Revision: 1 + writers*writes, Limit: 1})
	p.ok(err)
	if len(rows) != 1 || rows[0].Version != writers*writes || rows[0].ModRevision != 1+writers*writes || clock.Revision != 1+writers*writes {
		p.Errorf("after %d writes: %s, clock %+v", writers*writes, show(rows), clock)
	}
}

// testBeginIsFresh lets a Begin wait for another's commit, which it must then see.
func testBeginIsFresh(p *pair) {
	p.commit([]op{put("a", "1")})
	first := p.begin(backend.Needs{})
	got := make(chan backend.Loaded, 1)
	go func() {
		defer close(got)
		tx, err := p.other.Begin(p.ctx, backend.Needs{Keys: [][]byte{[]byte("a")}, Spans: []backend.Span{from("b")}, SpanLimit: 5, LeaseKeys: []int64{7}})
		if err != nil {
			p.Error(err)
			return
		}
		got <- *tx.Loaded()
		tx.Rollback()
	}()
	rows := p.m.add([]op{put("a", "2"), put("b", "1"), {key: "c", value: "1", lease: 7}})
	p.ok(first.Commit(p.ctx, &backend.Effects{Rows: rows, Revision: p.m.clock.Revision, Batch: 1}))
	l := <-got
	if l.Clock != p.m.clock {
		p.Errorf("clock %+v, want %+v", l.Clock, p.m.clock)
	}
	p.compare("read after the wait", l.Rows, rows, false)
}

// write commits one transaction through b under a batch and returns its rows.
func (p *pair) write(b backend.Shared, batch int64, ops ...op) []backend.Row {
	p.Helper()
	tx, err := b.Begin(p.ctx, backend.Needs{})
	p.ok(err)
	rows := p.m.add(ops)
	p.ok(tx.Commit(p.ctx, &backend.Effects{Rows: rows, Revision: p.m.clock.Revision, Batch: batch}))
	return rows
}

func (p *pair) checkTail(got backend.Tail, want backend.Tail) {
	p.Helper()
	var rows, wantRows []backend.Row
	for i, c := range got.Changes {
		rows = append(rows, c.Row)
		if i < len(want.Changes) {
			w := want.Changes[i].Prev
			if (c.Prev == nil) != (w == nil) || w != nil && !same(*c.Prev, *w) {
				p.Errorf("change %d has another previous row", i)
			}
		}
	}
	for _, c := range want.Changes {
		wantRows = append(wantRows, c.Row)
	}
	p.compare("tail", rows, wantRows, false)
	got.Changes, want.Changes = nil, nil
	if got.Clock != want.Clock || got.Through != want.Through || got.Base != want.Base || got.Batch != want.Batch || got.Purged != want.Purged {
		p.Errorf("tail %+v, want %+v", got, want)
	}
}

func testTail(p *pair) {
	one := p.write(p.a, 11, put("a", "1"), put("b", "1"), put("c", "1"))
	two := p.write(p.other, 12, put("a", "2"))
	three := p.write(p.a, 13, del("b"), put("d", ""))
	for _, c := range []struct {
		q    backend.TailQuery
		want backend.Tail
	}{
		{backend.TailQuery{After: 1, Limit: 100}, backend.Tail{Through: 4, Batch: 13, Changes: changes(one, two, three)}},
		{backend.TailQuery{After: 1, Limit: 1}, backend.Tail{Through: 2, Batch: 11, Changes: changes(one)}},
		{backend.TailQuery{After: 2, Limit: 1}, backend.Tail{Through: 3, Base: 11, Batch: 12, Changes: changes(two)}},
		{backend.TailQuery{After: 2, Limit: 2}, backend.Tail{Through: 4, Base: 11, Batch: 13, Changes: changes(two, three)}},
		{backend.TailQuery{After: 4, Limit: 10}, backend.Tail{Through: 4, Base: 13}},
		{backend.TailQuery{After: 9, Limit: 10}, backend.Tail{Through: 9}},
	} {
		c.want.Clock = p.m.clock
		got, err := p.other.Tail(p.ctx, c.q)
		p.ok(err)
		p.checkTail(got, c.want)
	}
	got, err := p.other.Tail(p.ctx, backend.TailQuery{After: 2, Limit: 10, WithPrev: true})
	p.ok(err)
	want := backend.Tail{Clock: p.m.clock, Through: 4, Base: 11, Batch: 13, Changes: changes(two, three)}
	want.Changes[0].Prev, want.Changes[1].Prev = &one[0], &one[1]
	p.checkTail(got, want)
	before := got.Alarms
	p.apply(&backend.Effects{Raised: []backend.Alarm{{Member: 1, Kind: 1}}})
	raised, err := p.other.Tail(p.ctx, backend.TailQuery{After: 4, Limit: 10})
	p.ok(err)
	p.apply(&backend.Effects{Cleared: []backend.Alarm{{Member: 1, Kind: 1}}})
	cleared, err := p.other.Tail(p.ctx, backend.TailQuery{After: 4, Limit: 10})
	p.ok(err)
	if raised.Alarms <= before || cleared.Alarms <= raised.Alarms {
		p.Errorf("alarms %d, raised %d, cleared %d", before, raised.Alarms, cleared.Alarms)
	}
}

func changes(txns ...[]backend.Row) (out []backend.Change) {
	for _, rows := range txns {
		for _, r := range rows {
			out = append(out, backend.Change{Row: r})
		}
	}
	return out
}

func testTailInBegin(p *pair) {
	one := p.write(p.a, 11, put("a", "1"))
	two := p.write(p.a, 12, put("b", "1"))
	tx, err := p.other.Begin(p.ctx, backend.Needs{Keys: [][]byte{[]byte("a")}, Tail: &backend.TailQuery{After: 2, Limit: 10}})
	p.ok(err)
	defer tx.Rollback()
	p.checkTail(tx.Loaded().Tail, backend.Tail{Clock: p.m.clock, Through: 3, Base: 11, Batch: 12, Changes: changes(two)})
	p.compare("keys beside it", tx.Loaded().Rows, one, false)
}

func testTailPurged(p *pair) {
	p.commit([]op{put("a", "1")}, []op{put("a", "2")}, []op{put("a", "3")})
	p.compact(3)
	purged := func() int64 {
		tail, err := p.other.Tail(p.ctx, backend.TailQuery{After: 1, Limit: 10})
		p.ok(err)
		return tail.Purged
	}
	if n := purged(); n > 0 {
		p.Errorf("purged %d before a purge", n)
	}
	p.purge(10)
	if n := purged(); n != 3 {
		p.Errorf("purged %d after a purge at 3", n)
	}
}

func testHead(p *pair) {
	head := func(batch, alarms int64) {
		p.Helper()
		for _, s := range []backend.Shared{p.a, p.other} {
			got, err := s.Head(p.ctx)
			p.ok(err)
			if got.Clock != p.m.clock || got.Batch != batch || got.Alarms != alarms {
				p.Errorf("head %+v, want batch %d, alarms %d at %+v", got, batch, alarms, p.m.clock)
			}
		}
	}
	first, err := p.a.Head(p.ctx)
	p.ok(err)
	head(0, first.Alarms)
	p.write(p.a, 11, put("a", "1"))
	head(11, first.Alarms)
	p.write(p.other, 12, put("a", "2"))
	head(12, first.Alarms)
	p.apply(&backend.Effects{Compacted: 2, Batch: 13}) // which moves no revision
	head(12, first.Alarms)
	p.apply(&backend.Effects{Raised: []backend.Alarm{{Member: 1, Kind: 1}}, Batch: 14})
	now, err := p.other.Head(p.ctx)
	p.ok(err)
	if now.Alarms <= first.Alarms {
		p.Errorf("the alarms' number is %d after %d", now.Alarms, first.Alarms)
	}
}

func testRaiseIncarnation(p *pair) {
	p.write(p.a, 11, put("a", "1"))
	p.write(p.a, 12, put("a", "2"))
	now := p.m.clock
	for _, c := range []struct {
		what  string
		held  backend.Clock
		batch int64
		raise int64
	}{
		{"all as it was", backend.Clock{Revision: 3, Incarnation: now.Incarnation}, 12, 0},
		{"others wrote since", backend.Clock{Revision: 2, Incarnation: now.Incarnation}, 11, 0},
		{"another incarnation", backend.Clock{Revision: 9, Incarnation: now.Incarnation + 5}, 1, 0},
		{"the clock fell back", backend.Clock{Revision: 4, Incarnation: now.Incarnation}, 13, 1},
		{"seen already", backend.Clock{Revision: 4, Incarnation: now.Incarnation}, 13, 1},
		{"another batch", backend.Clock{Revision: 3, Incarnation: now.Incarnation + 1}, 99, 2},
		{"a row where there was none", backend.Clock{Revision: 2, Incarnation: now.Incarnation + 2}, 0, 3},
	} {
		got, err := p.other.RaiseIncarnation(p.ctx, c.held, c.batch)
		p.ok(err)
		want := now
		want.Incarnation += c.raise
		if got != want {
			p.Errorf("%s: clock %+v, want %+v", c.what, got, want)
		}
		if again, err := p.a.Clock(p.ctx); err != nil || again != want {
			p.Errorf("%s: the other sees %+v, %v; want %+v", c.what, again, err, want)
		}
	}
}

// until polls f until it is true.
func (p *pair) until(what string, f func() bool) {
	p.Helper()
	for !f() {
		select {
		case <-p.ctx.Done():
			p.Fatalf("in vain: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

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
	states, err := p.other.LeaseStates(p.ctx, nil)
	p.ok(err)
	if !slices.Equal(leaseIDs(states), []int64{-2, 1}) {
		p.Fatalf("leases %+v", states)
	}
	for _, s := range states {
		if s.Remaining > s.TTL || s.ID == long.ID && s.Remaining < s.TTL-time.Minute {
			p.Errorf("lease %+v", s)
		}
	}
	one, err := p.other.LeaseStates(p.ctx, []int64{1, 99})
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
	if len(states) != 2 || states[0].ID != -2 || states[0].Remaining <= 0 || states[1].ID != 1 || states[1].Remaining > 0 {
		p.Errorf("leases in a transaction: %+v", states)
	}
	_, err = p.other.Heartbeat(p.ctx, backend.Member{ID: 7}, time.Hour, time.Nanosecond)
	p.ok(err)
	if renewed, err := p.a.RenewLeases(p.ctx, []int64{1}); err != nil || !slices.Equal(renewed, []backend.Lease{short}) {
		p.Errorf("renewed %+v after all were extended, %v", renewed, err)
	}
}

// testLockedLeases revokes a lease while another process renews it: the renewal comes too late.
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
	const patience = time.Hour
	a := backend.Member{ID: 7, Name: "a", ClientURLs: []string{"http://a:2379", "https://b,c:1"}}
	b := backend.Member{ID: 3, Name: "b"}
	beat := func(s backend.Shared, m backend.Member, patience time.Duration, leader uint64, took bool, members ...backend.Member) {
		p.Helper()
		got, err := s.Heartbeat(p.ctx, m, patience, time.Hour)
		p.ok(err)
		equal := slices.EqualFunc(got.Members, members, func(x, y backend.Member) bool {
			return x.ID == y.ID && x.Name == y.Name && slices.Equal(x.ClientURLs, y.ClientURLs)
		})
		if !equal || got.Leader != leader || got.Took != took || got.Silence < 0 || got.Silence > time.Minute {
			p.Errorf("heartbeat of %s: %+v; want leader %d, took %t, members %+v", m.Name, got, leader, took, members)
		}
	}
	beat(p.a, a, patience, 7, true, a)
	beat(p.other, b, patience, 7, false, b, a)
	beat(p.a, a, patience, 7, false, b, a)
	p.ok(p.a.Leave(p.ctx, 7))
	beat(p.other, b, patience, 3, true, b)
	beat(p.a, a, patience, 3, false, b, a)
	// One that was not heard of for longer than the other's patience is dead, and comes back to life.
	beat(p.a, a, time.Nanosecond, 7, true, a)
	beat(p.other, b, patience, 7, false, b, a)
	first, err := p.a.Heartbeat(p.ctx, a, patience, time.Hour)
	p.ok(err)
	p.until("silence grows", func() bool {
		select {
		case <-time.After(first.Silence + 50*time.Millisecond):
		case <-p.ctx.Done():
		}
		got, err := p.other.Heartbeat(p.ctx, b, patience, time.Hour)
		p.ok(err)
		return got.Silence >= 50*time.Millisecond
	})
}

func testHolds(p *pair) {
	p.commit([]op{put("a", "1")}, []op{put("a", "2")}, []op{put("a", "3")}, []op{put("a", "4")})
	p.compact(3)
	if _, err := p.other.Hold(p.ctx, 2, time.Hour); !errors.Is(err, backend.ErrCompacted) {
		p.Errorf("hold below the compacted revision: %v", err)
	}
	id, err := p.other.Hold(p.ctx, 3, time.Hour)
	p.ok(err)
	p.purge(10)
	p.checkReadable()
	p.compact(5)
	for range 3 {
		res, err := p.a.Purge(p.ctx, 10)
		p.ok(err)
		if res != (backend.PurgeResult{}) {
			p.Errorf("purged %+v in spite of a hold", res)
		}
	}
	h, err := p.a.History(p.ctx, backend.HistoryQuery{After: 2, Limit: 10, WithPrev: true})
	p.ok(err)
	if len(h.Changes) != 3 || h.Changes[1].Prev == nil {
		p.Errorf("%d changes under a hold", len(h.Changes))
	}
	p.ok(p.other.Release(p.ctx, id))
	if n := p.purge(10); n != 2 {
		p.Errorf("%d rows purged after the hold", n)
	}
	p.checkKept()
	// A hold that nobody ends passes by itself.
	p.commit([]op{put("a", "5")}, []op{put("a", "6")})
	_, err = p.other.Hold(p.ctx, 5, 50*time.Millisecond)
	p.ok(err)
	p.compact(7)
	p.until("the hold passes", func() bool {
		res, err := p.a.Purge(p.ctx, 10)
		p.ok(err)
		return res.Done
	})
	p.checkKept()
}

func testPurgeByBoth(p *pair) {
	p.compactable()
	p.compact(15)
	var wg sync.WaitGroup
	for _, b := range []backend.Shared{p.a, p.other, p.a} {
		wg.Go(func() {
			for {
				res, err := b.Purge(p.ctx, 2)
				if err != nil {
					p.Error(err)
				}
				if err != nil || res.Done {
					return
				}
			}
		})
	}
	wg.Wait()
	p.checkReadable()
	p.checkKept()
}

func testListen(p *pair) {
	ctx, cancel := context.WithCancel(p.ctx)
	states, hints, done := make(chan bool, 100), make(chan int64, 1000), make(chan struct{})
	go func() {
		defer close(done)
		p.other.Listen(ctx, func(revision int64) { hints <- revision }, func(listening bool) { states <- listening })
	}()
	defer func() {
		cancel()
		<-done
	}()
	if can := <-states; can == p.hooks.NoHints {
		p.Fatalf("hints can be expected: %t", can)
	}
	p.commit([]op{put("a", "1")})
	if p.hooks.NoHints {
		p.noHint(hints, states)
		return
	}
	for revision := int64(0); revision < p.m.clock.Revision; {
		select {
		case revision = <-hints:
		case <-p.ctx.Done():
			p.Fatal("no hint came")
		}
	}
}

// noHint fails if, within the time of some commits, a hint comes or Listen says anything more.
func (p *pair) noHint(hints <-chan int64, states <-chan bool) {
	p.Helper()
	for range 20 {
		p.commit([]op{put("a", "1")})
	}
	select {
	case h := <-hints:
		p.Errorf("hint %d where there are none", h)
	case now := <-states:
		p.Errorf("said again whether hints can be expected: %t", now)
	default:
	}
}
