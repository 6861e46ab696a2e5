package backendtest

import (
	"math"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// self is the member that confirms.
var self = backend.Member{ID: 7, Name: "a", ClientURLs: []string{"http://a:2379"}}

// fromPrimary checks that an answer's origin is the server that accepts writes.
func (p *pair) fromPrimary(what string, o backend.Origin) {
	p.Helper()
	h, err := p.a.Confirm(p.ctx, self)
	p.ok(err)
	if o.Server != h.Origin.Server || o.At <= 0 || o.At > h.Origin.At {
		p.Errorf("%s: of %+v, the primary is %+v", what, o, h.Origin)
	}
}

func testConfirm(p *pair) {
	p.write(p.other, 11, put("a", "1"))
	h, err := p.a.Confirm(p.ctx, self)
	p.ok(err)
	if want, err := p.other.Head(p.ctx); err != nil || h.Clock != want.Clock || h.Batch != 11 ||
		h.Alarms != want.Alarms {
		p.Errorf("confirmed %+v, the head is %+v, %v", h, want, err)
	}
	ms, err := p.other.Heartbeat(p.ctx, backend.Member{ID: 9}, time.Hour, time.Hour)
	p.ok(err)
	if !slices.ContainsFunc(ms.Members, func(m backend.Member) bool {
		return m.ID == self.ID && m.Name == self.Name && slices.Equal(m.ClientURLs, self.ClientURLs)
	}) {
		p.Errorf("the member that confirmed is not among %+v", ms.Members)
	}
	head, err := p.a.Head(p.ctx)
	p.ok(err)
	p.fromPrimary("head", head.Origin)
	tail, err := p.a.Tail(p.ctx, backend.TailQuery{After: 1, Limit: 10})
	p.ok(err)
	p.fromPrimary("tail", tail.Origin)
	tx, err := p.a.Begin(p.ctx, backend.Needs{Tail: &backend.TailQuery{After: 1, Limit: 10}})
	p.ok(err)
	tx.Rollback()
	p.fromPrimary("tail of a transaction", tx.Loaded().Tail.Origin)
}

// maxConnects is how many reads in a row may open a connection before the test fails.
const maxConnects = 20

// testUnconfirmed checks that each kind of commit, and nothing else, confirms the server.
func testUnconfirmed(p *pair) {
	origin := func(b backend.Shared) backend.Origin {
		p.Helper()
		h, err := b.Head(p.ctx)
		p.ok(err)
		return h.Origin
	}
	for what, commit := range map[string]func(b backend.Shared){
		"a batch": func(b backend.Shared) { p.write(b, 1, put("a", "1")) },
		"a heartbeat": func(b backend.Shared) {
			_, err := b.Heartbeat(p.ctx, self, time.Hour, time.Hour)
			p.ok(err)
		},
		"a confirmation": func(b backend.Shared) {
			_, err := b.Confirm(p.ctx, self)
			p.ok(err)
		},
	} {
		// a commit confirms only connections that are older, and reading may open a new one
		for began, tries := time.Now(), 1; ; began, tries = time.Now(), tries+1 {
			commit(p.a)
			o := origin(p.a)
			if o.Since.After(began) && tries < maxConnects {
				continue
			}
			// the wall clock may be adjusted in between
			if d := p.a.Unconfirmed(o); d < 0 || d > time.Since(began)+time.Second {
				p.Errorf("after %s: unconfirmed for %v", what, d)
			}
			break
		}
	}
	if d := p.other.Unconfirmed(origin(p.other)); d != math.MaxInt64 {
		p.Errorf("the commits of another process confirm: %v", d)
	}
	tx, err := p.other.Begin(p.ctx, backend.Needs{})
	p.ok(err)
	tx.Rollback()
	if d := p.other.Unconfirmed(origin(p.other)); d != math.MaxInt64 {
		p.Errorf("a rollback confirms: %v", d)
	}
	p.write(p.other, 2, put("a", "2"))
	o := origin(p.other)
	later := o
	later.At += time.Hour.Microseconds()
	if d := p.other.Unconfirmed(later); d < time.Hour {
		p.Errorf("an hour later by the server's clock: unconfirmed for %v", d)
	}
	o.Server.Started++
	if d := p.other.Unconfirmed(o); d != math.MaxInt64 {
		p.Errorf("the commit confirms another server: %v", d)
	}
}
