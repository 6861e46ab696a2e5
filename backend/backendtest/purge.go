package backendtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
)

// checkRetained compares all existing rows with those that must remain after a finished purge.
func (f *fixture) checkRetained() {
	f.Helper()
	h, err := f.b.History(context.Background(), backend.HistoryQuery{Limit: 1 << 30})
	if err != nil || h.Through != f.m.clock.Revision {
		f.Fatalf("through %d, %v", h.Through, err)
	}
	var rows []backend.Row
	for _, c := range h.Changes {
		rows = append(rows, c.Row)
	}
	f.compare(fmt.Sprintf("what is left of a compaction at %d", f.m.clock.Compacted), rows, f.m.retained(), false)
}

// checkReadable compares what is readable after a compaction with the model.
func (f *fixture) checkReadable() {
	f.Helper()
	for r := f.m.clock.Compacted; r <= f.m.clock.Revision; r++ {
		f.checkRange(backend.RangeQuery{Span: everything, Revision: r, Limit: 1000})
	}
	f.checkHistory(backend.HistoryQuery{After: max(0, f.m.clock.Compacted-1), Limit: 3, WithPrev: true})
	f.checkSuperseded()
}

// checkSuperseded asks at each readable revision about all rows that exist, as the model knows them.
func (f *fixture) checkSuperseded() {
	f.Helper()
	ctx := context.Background()
	h, err := f.b.History(ctx, backend.HistoryQuery{Limit: math.MaxInt32, KeysOnly: true})
	if err != nil {
		f.Fatal(err)
	}
	var ids []backend.RowID
	for i := range h.Changes {
		ids = append(ids, h.Changes[i].Row.ID())
	}
	for r := f.m.clock.Compacted; r <= f.m.clock.Revision; r++ {
		newest := map[string]backend.RowID{}
		for _, row := range f.m.newestRows(r) {
			newest[string(row.Key)] = row.ID()
		}
		purged := backend.RowID{ModRevision: 1} // of a row that does not exist
		want := []backend.RowID{purged}
		for i := range h.Changes {
			row := &h.Changes[i].Row
			if n, ok := newest[string(row.Key)]; ok && row.ID().Compare(n) < 0 {
				want = append(want, row.ID())
			}
		}
		got, clock, err := f.b.Superseded(ctx, backend.SupersededQuery{
			Rows: append([]backend.RowID{purged}, ids...), Revision: r,
		})
		if err != nil || clock != f.m.clock || !slices.Equal(got, want) {
			f.Fatalf("superseded at %d: %v, clock %+v, %v; want %v, %+v", r, got, clock, err, want, f.m.clock)
		}
	}
}

// compactable writes a history with every case that a purge must handle.
func (f *fixture) compactable() {
	f.commit(
		[]op{put("a", "1"), put("b", "1"), put("c", "1")}, // 2
		[]op{put("a", "2")},                                               // 3
		[]op{del("b")},                                                    // 4
		[]op{put("b", "2")},                                               // 5
		[]op{put("d", "1"), del("d")},                                     // 6
		[]op{put("a", "3"), del("a"), put("e", "1")},                      // 7
		[]op{put("d", "2"), put("e", "2"), del("c")},                      // 8
		[]op{put("e", "3"), del("e")},                                     // 9
		[]op{del("d"), del("b"), put("f", "1"), put("a", "4")},            // 10
		[]op{put("b", "3")},                                               // 11
		[]op{put("f", "2"), del("f"), put("g", "1")}, []op{put("g", "2")}, // 12, 13
		[]op{del("g"), put("g", "3")},                     // 14
		[]op{del("g"), put("g", "4"), del("g"), del("b")}, // 15
		[]op{put("g", "5")},                               // 16
	)
}

func testPurgeRetains(f *fixture) {
	f.compactable()
	for c := int64(2); c <= f.m.clock.Revision; c++ {
		f.compact(c)
		f.checkReadable()
		f.purge(100)
		f.checkReadable()
		f.checkRetained()
	}
	if n := f.purge(100); n != 0 {
		f.Errorf("%d rows purged twice", n)
	}
	f.commit([]op{put("a", "5")}, []op{del("a")})
	f.compact(f.m.clock.Revision)
	f.purge(1)
	f.checkRetained()
}

// testPurgeUntil keeps the rows superseded above a revision, for readers, and removes the rest; then it removes those,
// too.
func testPurgeUntil(f *fixture) {
	f.compactable()
	last := f.m.clock.Revision
	f.compact(last)
	for until := int64(0); until < last; until++ {
		f.m.clock.Compacted = until // which is what may be read
		through := int64(-1)
		for through < until {
			res, err := f.b.Purge(context.Background(), 2, until)
			if err != nil || res.Done || res.Through > until {
				f.Fatalf("until %d: %+v, %v", until, res, err)
			}
			if through = res.Through; res == (backend.PurgeResult{}) {
				break
			}
		}
		for r := max(until, 1); r <= last; r++ {
			rows, _, err := f.b.Range(context.Background(),
				backend.RangeQuery{Span: everything, Revision: r, Limit: 1000})
			if err != nil {
				f.Fatal(err)
			}
			f.compare(fmt.Sprintf("revision %d, purged until %d", r, until), rows, f.m.rangeAt(everything, r), false)
		}
		f.checkRetained()
		if res, err := f.b.Purge(context.Background(), 2, until); err != nil || res != (backend.PurgeResult{}) {
			f.Fatalf("nothing is left until %d: %+v, %v", until, res, err)
		}
	}
	f.m.clock.Compacted = last
	f.purge(2)
	f.checkRetained()
}

// testPurgeInSteps checks everything between steps, and advances the compaction during a purge.
func testPurgeInSteps(f *fixture) {
	f.compactable()
	for _, c := range []int64{5, 7, 10, 13, 14, 15} {
		f.compact(c)
		for range 3 {
			if _, err := f.b.Purge(context.Background(), 1, math.MaxInt64); err != nil {
				f.Fatal(err)
			}
			f.checkReadable()
		}
	}
	f.commit([]op{put("h", "1")})
	f.purge(1)
	f.checkReadable()
	f.checkRetained()
}

func testSpaceIsReclaimed(f *fixture) {
	ctx := context.Background()
	value := strings.Repeat("x", 10_000)
	for i := range 200 {
		f.commit([]op{put(fmt.Sprint("k", i%10), value)}, []op{put("a", fmt.Sprint(i))})
	}
	full, err := f.b.Size(ctx)
	if err != nil {
		f.Fatal(err)
	}
	f.compact(f.m.clock.Revision)
	if n := f.purge(64); n < 300 {
		f.Errorf("%d rows purged", n)
	}
	less, err := f.b.Size(ctx)
	if err != nil || less.InUse >= full.InUse {
		f.Errorf("size %+v, then %+v after a purge, %v", full, less, err)
	}
	for done := false; !done; {
		if done, _, err = f.b.Reclaim(ctx, 50); err != nil {
			f.Fatal(err)
		}
	}
	f.checkRetained()
	if err := f.b.Defragment(ctx); err != nil {
		f.Fatal(err)
	}
	size, err := f.b.Size(ctx)
	if err != nil || size.InUse <= 0 || size.InUse > less.InUse || size.Total > full.Total {
		f.Errorf("size %+v, after a purge %+v, after the rest %+v, %v", full, less, size, err)
	}
	f.checkRetained()
	f.commit([]op{put("a", "again")})
	f.checkReadable()
}
