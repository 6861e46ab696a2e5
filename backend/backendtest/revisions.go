package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// testLastRevision lifts the clock and uses the last revisions that the database can hold.
func testLastRevision(f *fixture) {
	ctx := context.Background()
	s, err := f.b.Settings(ctx)
	f.ok(err)
	if s.Lifts(s.Liftable()) != nil || !errors.Is(s.Lifts(s.Liftable()+1), backend.ErrRevisionTooHigh) {
		f.Errorf("liftable to %d", s.Liftable())
	}
	f.commit([]op{put("a", "1"), put("b", "1")})
	f.m.clock.Revision = s.MaxRevision - 3
	f.apply(&backend.Effects{Compacted: s.MaxRevision - 3})
	f.commit([]op{put("a", "2"), put("c", "1")}, []op{del("b")})
	f.commit([]op{put("a", "3"), put("d", "1")})
	check := func() {
		f.checkRange(backend.RangeQuery{Span: everything, Revision: s.MaxRevision, Limit: 10})
		f.checkHistory(backend.HistoryQuery{After: s.MaxRevision - 1, Limit: 10, WithPrev: true})
		rows, _, err := f.b.Rows(ctx, []backend.RowID{{ModRevision: s.MaxRevision, Ordinal: 1}}, 0)
		if err != nil || len(rows) != 1 || string(rows[0].Key) != "d" {
			f.Errorf("the last row is %+v, %v", rows, err)
		}
	}
	f.checkHistory(backend.HistoryQuery{After: s.MaxRevision - 3, Limit: 10, WithPrev: true})
	check()
	f.compact(s.MaxRevision)
	if n := f.purge(2); n != 4 { // a twice, b and its tombstone
		f.Errorf("purged %d rows", n)
	}
	check()
	before := f.m.clock
	beyond := s.MaxRevision + 1
	for name, e := range map[string]backend.Effects{
		"a row":   {Rows: []backend.Row{{Key: []byte("e"), ModRevision: beyond, CreateRevision: beyond, Version: 1}}},
		"nothing": {Compacted: beyond},
	} {
		e.Revision = beyond
		err := f.begin(backend.Needs{}).Commit(ctx, &e)
		f.wantErr(name, err, backend.ErrRejected)
		f.wantErr(name, err, backend.ErrRevisionTooHigh)
		if c, err := f.b.Clock(ctx); err != nil || c != before {
			f.Errorf("%s: clock %+v, %v", name, c, err)
		}
	}
	f.apply(&backend.Effects{Granted: []backend.Lease{{ID: 1, TTL: time.Second}}})
	check()
}
