package backendtest

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

func testPins(p *pair) {
	p.commit([]op{put("a", "1")}, []op{put("a", "2")}, []op{put("a", "3")}, []op{put("a", "4")})
	p.compact(3)
	if _, err := p.other.Pin(p.ctx, 2, time.Hour); !errors.Is(err, backend.ErrCompacted) {
		p.Errorf("pin below the compacted revision: %v", err)
	}
	id, err := p.other.Pin(p.ctx, 3, time.Hour)
	p.ok(err)
	p.purge(10)
	p.checkReadable()
	p.compact(5)
	for range 3 {
		res, err := p.a.Purge(p.ctx, 10, math.MaxInt64)
		p.ok(err)
		if res != (backend.PurgeResult{}) {
			p.Errorf("purged %+v in spite of a pin", res)
		}
	}
	h, err := p.a.History(p.ctx, backend.HistoryQuery{After: 2, Limit: 10, WithPrev: true})
	p.ok(err)
	if len(h.Changes) != 3 || h.Changes[1].Prev == nil {
		p.Errorf("%d changes under a pin", len(h.Changes))
	}
	p.underPin(id, 3)
	p.ok(p.other.Release(p.ctx, id))
	p.underPin(id, 5)
	if n := p.purge(10); n != 2 {
		p.Errorf("%d rows purged after the pin", n)
	}
	p.checkRetained()
	// A pin that is not ended expires.
	p.commit([]op{put("a", "5")}, []op{put("a", "6")})
	_, err = p.other.Pin(p.ctx, 5, 50*time.Millisecond)
	p.ok(err)
	p.compact(7)
	p.until("the pin passes", func() bool {
		res, err := p.a.Purge(p.ctx, 10, math.MaxInt64)
		p.ok(err)
		return res.Done
	})
	p.checkRetained()
	p.renewedPin(7)
	// A pin keeps the rows above it, and nothing else.
	p.commit([]op{put("a", "8")}, []op{put("a", "9")})
	id, err = p.other.Pin(p.ctx, 9, time.Hour)
	p.ok(err)
	p.compact(10)
	removed := 0
	for range 3 {
		res, err := p.a.Purge(p.ctx, 10, math.MaxInt64)
		p.ok(err)
		removed += res.Removed
		if res.Done || res.Through > 9 {
			p.Errorf("purged %+v under a pin at 9", res)
		}
	}
	if removed != 1 {
		p.Errorf("%d rows purged under a pin at 9", removed)
	}
	p.ok(p.other.Release(p.ctx, id))
	p.purge(10)
	p.checkRetained()
}

// renewedPin checks that a pin at the compacted revision lasts as long as its last renewal says.
func (p *pair) renewedPin(revision int64) {
	p.Helper()
	const short = 50 * time.Millisecond
	began := time.Now()
	id, err := p.other.Pin(p.ctx, revision, short)
	p.ok(err)
	p.ok(p.a.Renew(p.ctx, id, time.Hour))
	p.commit([]op{put("a", "7")})
	p.compact(revision + 1)
	p.until("the pin would have passed", func() bool { return time.Since(began) > 2*short })
	for range 3 {
		res, err := p.a.Purge(p.ctx, 10, math.MaxInt64)
		p.ok(err)
		if res.Removed > 0 || res.Done {
			p.Errorf("purged %+v in spite of a renewed pin", res)
		}
	}
	p.ok(p.other.Renew(p.ctx, id, time.Millisecond))
	p.purge(10)
	p.checkRetained()
	if err := p.other.Renew(p.ctx, id, time.Hour); !errors.Is(err, backend.ErrCompacted) {
		p.Errorf("renewed a pin that has ended: %v", err)
	}
}

// underPin checks the compacted revision that both backends report to reads that rely on a pin.
func (p *pair) underPin(id, compacted int64) {
	p.Helper()
	for _, b := range []backend.Shared{p.a, p.other} {
		ids, clock, err := b.Superseded(p.ctx, backend.SupersededQuery{
			Rows: []backend.RowID{{ModRevision: 4}, {ModRevision: 5}}, Revision: 5, Pin: id,
		})
		p.ok(err)
		if clock.Compacted != compacted || clock.Revision != 5 || len(ids) != 1 || ids[0].ModRevision != 4 {
			p.Errorf("%v are superseded, clock %+v; want revision 4, compacted %d", ids, clock, compacted)
		}
		for _, sp := range []backend.Span{everything, {Start: []byte("a")}, {Start: []byte("a"), End: []byte("b")}} {
			for _, keysOnly := range []bool{false, true} {
				q := backend.RangeQuery{Span: sp, Revision: 3, Limit: 10, KeysOnly: keysOnly, Pin: id}
				rows, clock, err := b.Range(p.ctx, q)
				p.ok(err)
				if clock.Compacted != compacted || clock.Revision != 5 || len(rows) != 1 || rows[0].ModRevision != 3 {
					p.Errorf("range of %d rows, clock %+v; want one row, compacted %d", len(rows), clock, compacted)
				}
				n, clock, err := b.Count(p.ctx, q)
				p.ok(err)
				if clock.Compacted != compacted || clock.Revision != 5 || n != 1 {
					p.Errorf("counted %d, clock %+v; want 1, compacted %d", n, clock, compacted)
				}
				for _, prev := range []bool{false, true} {
					h, err := b.History(p.ctx,
						backend.HistoryQuery{
							After: 3, Span: sp, Limit: 10, KeysOnly: keysOnly, WithPrev: prev,
							Pin: id,
						})
					p.ok(err)
					if h.Clock.Compacted != compacted || h.Clock.Revision != 5 || len(h.Changes) != 2 {
						p.Errorf("history of %d changes, clock %+v; want 2, compacted %d", len(h.Changes), h.Clock,
							compacted)
					}
				}
			}
		}
	}
}

func testPurgeByBoth(p *pair) {
	p.compactable()
	p.compact(15)
	var wg sync.WaitGroup
	for _, b := range []backend.Shared{p.a, p.other, p.a} {
		wg.Go(func() {
			for {
				res, err := b.Purge(p.ctx, 2, math.MaxInt64)
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
	p.checkRetained()
}
