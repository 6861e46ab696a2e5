package backendtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// sharedTimeout limits each wait of a test of two backends.
const sharedTimeout = 20 * time.Second

// SharedHooks say what a shared backend cannot do in its configuration.
type SharedHooks struct {
	// NoHints says that the database sends no hints: Listen must report that, once.
	NoHints bool
	// Only names the tests to run, nil for all: for a further mode of a backend that has passed all of them.
	Only []string
}

// RunShared tests what several processes share: open makes two backends over one new and empty database, and registers
// its own cleanup.
func RunShared(t *testing.T, open func(t *testing.T) (a, b backend.Shared), hooks SharedHooks) {
	chosen := choose(hooks.Only)
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
		{"TailOfBump", testTailOfBump},
		{"RaiseEpoch", testRaiseEpoch},
		{"Confirm", testConfirm},
		{"UnconfirmedUntilACommit", testUnconfirmed},
		{"LeasesByTheDatabasesClock", testSharedLeases},
		{"LockedLeasesAreNotRenewed", testLockedLeases},
		{"EndingLeasesStayEnded", testEndingLeases},
		{"Heartbeat", testHeartbeat},
		{"PinsKeepRows", testPins},
		{"PurgeByBoth", testPurgeByBoth},
		{"TokenKeysByBoth", testTokenKeysByBoth},
		{"AuthIsNews", testAuthIsNews},
		{"Listen", testListen},
	} {
		if !chosen.has(c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
			defer cancel()
			c.test(&pair{fixture: newFixture(t, a, Hooks{}), ctx: ctx, a: a, other: b, hooks: hooks})
		})
	}
	chosen.verify(t)
}

// pair is two backends over one database; the fixture writes through the first.
type pair struct {
	*fixture
	ctx   context.Context
	a     backend.Shared
	other backend.Shared
	hooks SharedHooks
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

// testBeginExcludesOthers writes through both concurrently; a revision assigned twice would be refused or counted once.
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
				r := backend.Row{
					Key: []byte("counter"), Value: []byte{}, ModRevision: l.Clock.Revision + 1,
					CreateRevision: 2, Version: 1,
				}
				if len(l.Rows) == 1 {
					r.Version, r.PrevRevision = l.Rows[0].Version+1, l.Rows[0].ModRevision
				}
				if err := tx.Commit(p.ctx,
					&backend.Effects{Rows: []backend.Row{r}, Revision: r.ModRevision, Batch: 1}); err != nil {
					p.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	rows, clock, err := p.a.Range(p.ctx,
		backend.RangeQuery{Span: only("counter"), Revision: 1 + writers*writes, Limit: 1})
	p.ok(err)
	if len(rows) != 1 || rows[0].Version != writers*writes || rows[0].ModRevision != 1+writers*writes ||
		clock.Revision != 1+writers*writes {
		p.Errorf("after %d writes: %s, clock %+v", writers*writes, show(rows), clock)
	}
}

// testBeginIsFresh makes a Begin wait for another backend's commit, which it must then see.
func testBeginIsFresh(p *pair) {
	p.commit([]op{put("a", "1")})
	first := p.begin(backend.Needs{})
	got := make(chan backend.Loaded, 1)
	go func() {
		defer close(got)
		tx, err := p.other.Begin(p.ctx,
			backend.Needs{
				Keys: [][]byte{[]byte("a")}, Spans: []backend.Span{from("b")}, SpanLimit: 5,
				LeaseKeys: []int64{7}, LeaseLimit: 1,
			})
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
	p.compare("attached after the wait", l.LeaseRows, rows[2:], true)
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
