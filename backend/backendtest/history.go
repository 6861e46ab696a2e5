package backendtest

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// everything is the span of all keys for the model; in a query it is the zero span.
var everything = from("")

// checkHistory follows a query to its end, call by call, and compares the result with the model's.
func (f *fixture) checkHistory(q backend.HistoryQuery) {
	f.Helper()
	until := q.Until
	if until == 0 {
		until = f.m.clock.Revision
	}
	s := q.Span
	if s.Start == nil && s.End == nil {
		s = everything
		f.checkDigests(backend.DigestQuery{After: q.After, Until: until, Limit: q.Limit, Bytes: q.Bytes})
	}
	what := fmt.Sprintf("history of %s in (%d, %d], limit %d, bytes %d", describeSpan(s), q.After, until, q.Limit,
		q.Bytes)
	want := f.m.history(s, q.After, until)
	for q.After < until {
		h, err := f.b.History(context.Background(), q)
		if err != nil {
			f.Fatalf("%s: %v", what, err)
		}
		if h.Clock != f.m.clock {
			f.Fatalf("%s: clock %+v, want %+v", what, h.Clock, f.m.clock)
		}
		if h.Through <= q.After || h.Through > until {
			f.Fatalf("%s: through %d after %d", what, h.Through, q.After)
		}
		n := 0
		for n < len(want) && want[n].ModRevision <= h.Through {
			n++
		}
		f.checkBytes(what, q, h.Changes)
		var got []backend.Row
		for i, c := range h.Changes {
			got = append(got, c.Row)
			f.checkPrev(what, q, c)
			if i >= q.Limit && c.Row.ModRevision != h.Changes[q.Limit-1].Row.ModRevision {
				f.Fatalf("%s: %d rows, more than whole revisions need", what, len(h.Changes))
			}
		}
		f.compare(fmt.Sprintf("%s, after %d", what, q.After), got, want[:n], q.KeysOnly)
		want = want[n:]
		q.After = h.Through
	}
	if len(want) != 0 {
		f.Fatalf("%s: not returned: %s", what, show(want))
	}
}

// checkDigests follows a query to its end, call by call, and compares the result with the model's.
func (f *fixture) checkDigests(q backend.DigestQuery) {
	f.Helper()
	what := fmt.Sprintf("digests in (%d, %d], limit %d, bytes %d", q.After, q.Until, q.Limit, q.Bytes)
	want := f.m.history(everything, q.After, q.Until)
	for q.After < q.Until {
		d, err := f.b.Digests(context.Background(), q)
		if err != nil {
			f.Fatalf("%s: %v", what, err)
		}
		if d.Clock != f.m.clock || d.Through <= q.After || d.Through > q.Until {
			f.Fatalf("%s: clock %+v, through %d after %d", what, d.Clock, d.Through, q.After)
		}
		n := 0
		for n < len(want) && want[n].ModRevision <= d.Through {
			n++
		}
		var got []backend.Row
		for i := range d.Rows {
			r := d.Rows[i].Row
			got = append(got, r)
			if newest := f.m.rangeAt(only(string(r.Key)), d.Purged); r.ModRevision < d.Purged &&
				(len(newest) == 0 || newest[0].ID() != r.ID()) {
				f.Fatalf("%s: %s, purged through %d", what, show([]backend.Row{r}), d.Purged)
			}
			if i < n && d.Rows[i].Digest != backend.DigestOf(want[i].Value) {
				f.Fatalf("%s: %+v of %s", what, d.Rows[i].Digest, show(want[i:i+1]))
			}
			if i >= q.Limit && r.ModRevision != got[q.Limit-1].ModRevision {
				f.Fatalf("%s: %d rows, more than whole revisions need", what, len(d.Rows))
			}
		}
		f.compare(fmt.Sprintf("%s, after %d", what, q.After), got, want[:n], true)
		want, q.After = want[n:], d.Through
	}
	if len(want) != 0 {
		f.Fatalf("%s: not returned: %s", what, show(want))
	}
}

// checkPrev compares a change's previous row with the row that it superseded, which may be missing at or below the
// compacted revision.
func (f *fixture) checkPrev(what string, q backend.HistoryQuery, c backend.Change) {
	f.Helper()
	var want *backend.Row
	if q.WithPrev {
		want = f.m.superseded(&c.Row)
	}
	switch {
	case c.Prev == nil && want == nil:
	case c.Prev == nil:
		if c.Row.ModRevision > f.m.clock.Compacted {
			f.Fatalf("%s: no previous row with %s", what, show([]backend.Row{c.Row}))
		}
	case want == nil:
		f.Fatalf("%s: a previous row with %s: %s", what, show([]backend.Row{c.Row}), show([]backend.Row{*c.Prev}))
	default:
		f.compare(what+": previous row", []backend.Row{*c.Prev}, []backend.Row{*want}, q.KeysOnly)
	}
}

func testHistoryWholeRevisions(f *fixture) {
	f.commit([]op{put("a", "1")}, []op{put("a", "2"), put("b", "1"), put("c", "1")}, []op{put("d", "1")})
	f.commit([]op{del("a"), del("b"), del("c"), del("d")}, []op{put("a", "3")})
	for _, limit := range []int{1, 2, 3, 4, 5, 100} {
		for after := int64(0); after <= f.m.clock.Revision; after++ {
			f.checkHistory(backend.HistoryQuery{After: after, Limit: limit})
			for until := after + 1; until <= f.m.clock.Revision; until++ {
				f.checkHistory(backend.HistoryQuery{After: after, Until: until, Limit: limit, WithPrev: true})
			}
		}
	}
	// A limit that ends inside a revision returns the rest of it; one that ends with a revision returns no more.
	h, err := f.b.History(context.Background(), backend.HistoryQuery{After: 1, Limit: 2})
	if err != nil || len(h.Changes) != 4 || h.Through != 3 {
		f.Errorf("limit 2: %d rows through %d, %v", len(h.Changes), h.Through, err)
	}
	h, err = f.b.History(context.Background(), backend.HistoryQuery{After: 1, Limit: 4})
	if err != nil || len(h.Changes) != 4 || h.Through < 3 {
		f.Errorf("limit 4: %d rows through %d, %v", len(h.Changes), h.Through, err)
	}
	// Nothing is known about future revisions.
	h, err = f.b.History(context.Background(), backend.HistoryQuery{After: 1, Until: 1000, Limit: 100})
	if err != nil || h.Through != f.m.clock.Revision {
		f.Errorf("until 1000: through %d, %v", h.Through, err)
	}
	h, err = f.b.History(context.Background(), backend.HistoryQuery{After: f.m.clock.Revision, Limit: 100})
	if err != nil || len(h.Changes) != 0 || h.Through != f.m.clock.Revision {
		f.Errorf("after the last: %+v, %v", h, err)
	}
}

func testHistoryOfSpans(f *fixture) {
	for i := range 60 {
		k := oddKeys[i*5%len(oddKeys)]
		f.commit([]op{put(k, fmt.Sprint(i)), put("other", fmt.Sprint(i))}, []op{del(k)},
			[]op{put("/p/a", fmt.Sprint(i))})
	}
	for _, s := range []backend.Span{
		{},
		everything, from("\x00"), from("/p/a"), from("\xff\xff\xff"), only("/p/a"), only("\x00"), only("none"),
		span("/p/", "/p0"), span("/p/a", "/p/a\x00"), span("\x00", "\x00\x00"), span("/p/a", "/p/b"), span("x", "y"),
		{End: []byte("/p/a\x00")},
	} {
		for _, limit := range []int{1, 7, 1000} {
			f.checkHistory(backend.HistoryQuery{Span: s, Limit: limit, WithPrev: true})
			f.checkHistory(backend.HistoryQuery{
				Span: s, Limit: limit, After: 50, Until: 100, KeysOnly: true,
				WithPrev: true,
			})
			f.checkHistory(backend.HistoryQuery{Span: s, Limit: limit, After: 77})
		}
	}
}

// testHistoryOfRareKeys writes two rows far apart, among many unrelated ones.
func testHistoryOfRareKeys(f *fixture) {
	var txns [][]op
	for i := range 20_000 {
		k := fmt.Sprintf("common/%d", i)
		if i == 100 || i == 19_000 {
			k = fmt.Sprintf("rare/%d", i)
		}
		txns = append(txns, []op{put(k, "v")})
		if len(txns) == 1000 {
			f.commit(txns...)
			txns = nil
		}
	}
	for _, s := range []backend.Span{span("rare/", "rare0"), from("rare/"), only("rare/19000")} {
		f.checkHistory(backend.HistoryQuery{Span: s, Limit: 10})
	}
}

func testHistoryWithPrev(f *fixture) {
	f.commit([]op{put("a", "1"), put("b", "")}, []op{put("a", "2")}, []op{put("b", "2")}, []op{del("a")},
		[]op{put("a", "3")})
	for _, keysOnly := range []bool{false, true} {
		f.checkHistory(backend.HistoryQuery{Limit: 100, WithPrev: true, KeysOnly: keysOnly})
		f.checkHistory(backend.HistoryQuery{Limit: 100, WithPrev: true, KeysOnly: keysOnly, Span: only("a")})
	}
	h, err := f.b.History(context.Background(), backend.HistoryQuery{Limit: 100, WithPrev: true})
	if err != nil || len(h.Changes) != 6 {
		f.Fatalf("%d rows, %v", len(h.Changes), err)
	}
	for i, want := range []string{"", "", "a=1", "b=", "a=2", ""} {
		got := ""
		if p := h.Changes[i].Prev; p != nil {
			got = string(p.Key) + "=" + string(p.Value)
		}
		if got != want {
			f.Errorf("row %d supersedes %q, want %q", i, got, want)
		}
	}
}

// testHistoryOfMovedRows reads a transaction whose rows do not lie in the order in which they were written, as after
// the database has reused the space of others.
func testHistoryOfMovedRows(f *fixture) {
	var ops []op
	for i := range 20 {
		ops = append(ops, put(fmt.Sprintf("k%02d", i), "v"))
	}
	f.commit(ops, []op{put("after", "v")})
	for _, ordinal := range []int{7, 0, 3} {
		f.hooks.Execute(f.T, f.b,
			fmt.Sprintf("UPDATE object_versions SET version = version WHERE ordinal = %d", ordinal))
	}
	f.hooks.Execute(f.T, f.b, "ANALYZE object_versions") // so that the planner reads the small table without an index
	for _, limit := range []int{1, 1000} {
		f.checkHistory(backend.HistoryQuery{Limit: limit})
	}
}
