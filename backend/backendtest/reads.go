package backendtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
)

func testFresh(f *fixture) {
	ctx := context.Background()
	if c := f.m.clock; c.Revision != 1 || c.Compacted != 0 || c.Epoch < 1 {
		f.Errorf("clock of a fresh store: %+v", c)
	}
	s, err := f.b.Settings(ctx)
	if err != nil || s.ClusterID == 0 || s.MemberID == 0 || s.ClusterID == s.MemberID ||
		max(s.ClusterID, s.MemberID) > math.MaxInt64 {
		f.Errorf("settings %+v, %v", s, err)
	}
	if again, err := f.b.Settings(ctx); err != nil || again != s {
		f.Errorf("settings %+v, then %+v, %v", s, again, err)
	}
	f.checkRange(backend.RangeQuery{Span: from(""), Revision: 1, Limit: 10})
	if h, err := f.b.History(ctx, backend.HistoryQuery{Limit: 10}); err != nil || len(h.Changes) != 0 ||
		h.Through != 1 {
		f.Errorf("history %+v, %v", h, err)
	}
	if l, err := f.b.Leases(ctx); err != nil || len(l) != 0 {
		f.Errorf("leases %v, %v", l, err)
	}
	if a, err := f.b.Alarms(ctx); err != nil || len(a) != 0 {
		f.Errorf("alarms %v, %v", a, err)
	}
	if n := f.purge(10); n != 0 {
		f.Errorf("%d rows purged", n)
	}
	if size, err := f.b.Size(ctx); err != nil || size.Total < size.InUse || size.InUse <= 0 {
		f.Errorf("size %+v, %v", size, err)
	}
}

func testRowsAreComplete(f *fixture) {
	values := []string{"", "\x00", "v", strings.Repeat("x", 1<<10), strings.Repeat("big\xff\x00", 400_000)}
	var ops []op
	for i, v := range values {
		ops = append(ops, op{key: fmt.Sprintf("k%d", i), value: v, lease: int64(i) * math.MaxInt64 / 4})
	}
	ops[1].lease = math.MinInt64
	f.commit(ops)
	f.commit(ops[1:3], []op{del("k0")}, []op{put("k0", "again")})
	for _, keysOnly := range []bool{false, true} {
		f.checkRange(backend.RangeQuery{Span: from(""), Revision: f.m.clock.Revision, Limit: 100, KeysOnly: keysOnly})
		for i := range values {
			f.checkRange(backend.RangeQuery{
				Span: only(fmt.Sprintf("k%d", i)), Revision: f.m.clock.Revision, Limit: 1,
				KeysOnly: keysOnly,
			})
		}
		f.checkHistory(backend.HistoryQuery{Limit: 100, KeysOnly: keysOnly})
	}
}

// oddKeys are keys in byte order, which is not the order of any collation nor of any split into parts.
var oddKeys = []string{
	"\x00", "\x00\x00", "\x00\x01", "\x01", "/p/A", "/p/a", "/p/a\x00", "/p/a\x00\x00", "/p/a ", "/p/a/", "/p/a/x",
	"/p/aa", "/p/b",
	"0", "A", "a", "é", "\xe9", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\xff",
}

func testKeyOrder(f *fixture) {
	if !slices.IsSorted(oddKeys) {
		f.Fatal("the keys of this test are out of order")
	}
	for i := range oddKeys {
		f.commit([]op{put(oddKeys[(i*7)%len(oddKeys)], "v")})
	}
	rows, _, err := f.b.Range(context.Background(),
		backend.RangeQuery{Span: from(""), Revision: f.m.clock.Revision, Limit: 100})
	if err != nil || !slices.Equal(keysOf(rows), oddKeys) {
		f.Fatalf("keys %q, %v", keysOf(rows), err)
	}
}

func testSpans(f *fixture) {
	var ops []op
	for _, k := range oddKeys {
		ops = append(ops, put(k, k))
	}
	f.commit(ops)
	for i, start := range append(oddKeys, "", "/p/", "zzz", "\xff\xff\xff\xff") {
		f.checkRange(backend.RangeQuery{Span: only(start), Revision: 2, Limit: 10})
		for _, limit := range []int{1, 3, 1000} {
			f.checkRange(backend.RangeQuery{Span: from(start), Revision: 2, Limit: limit, KeysOnly: i%2 == 0})
			for _, end := range []string{"/p/", "/p0", "/p/a\x00", "\xff", "\xff\xff\xff\xff", start, start + "\x00"} {
				if end != "" {
					f.checkRange(backend.RangeQuery{
						Span: span(start, end), Revision: 2, Limit: limit,
						KeysOnly: i%2 == 1,
					})
				}
			}
		}
	}
	// Without a start, an end alone still bounds.
	f.checkRange(backend.RangeQuery{Span: backend.Span{End: []byte("a")}, Revision: 2, Limit: 1000})
}

func testPinnedReads(f *fixture) {
	f.commit([]op{put("a", "1")}, []op{put("b", "1"), put("c", "1")}, []op{put("a", "2")})
	f.commit([]op{del("b")}, []op{put("b", "2")}, []op{del("a"), del("c")}, []op{put("c", "2")})
	for pass := range 2 {
		for r := int64(1); r <= f.m.clock.Revision; r++ {
			for _, s := range []backend.Span{from(""), span("a", "c"), only("a"), only("b"), only("c")} {
				for _, limit := range []int{1, 2, 10} {
					f.checkRange(backend.RangeQuery{Span: s, Revision: r, Limit: limit, KeysOnly: pass == 1})
				}
			}
		}
		// Later writes do not change it.
		f.commit([]op{put("a", "3"), put("d", "1")}, []op{del("b")})
	}
}

func testPutAndDelete(f *fixture) {
	f.commit([]op{put("new", "1"), del("new"), put("other", "1")})
	f.commit([]op{put("old", "1")})
	f.commit([]op{put("old", "2"), del("old")})
	f.commit([]op{put("old", "3")})
	// The other way round, which etcd's check for duplicates lets pass if the deleted range has no end, and both.
	f.commit([]op{del("old"), put("old", "4")})
	f.commit([]op{del("old"), put("old", "5"), del("old")})
	f.commit([]op{put("old", "6")}, []op{del("other"), put("other", "2")})
	for r := int64(1); r <= f.m.clock.Revision; r++ {
		for _, s := range []backend.Span{from(""), only("old"), only("new"), span("n", "o")} {
			f.checkRange(backend.RangeQuery{Span: s, Revision: r, Limit: 10})
			f.checkRange(backend.RangeQuery{Span: s, Revision: r, Limit: 10, KeysOnly: true})
		}
	}
	for _, s := range []backend.Span{{}, only("old"), span("old", "old\x00"), span("n", "p"), from("n")} {
		f.checkHistory(backend.HistoryQuery{Span: s, Limit: 1, WithPrev: true})
	}
	f.checkLoaded(backend.Needs{Keys: [][]byte{[]byte("old"), []byte("new"), []byte("other")}}, "old", "other")
}

func testRowsByID(f *fixture) {
	ctx := context.Background()
	f.commit([]op{put("a", "1"), put("b", "1")}, []op{put("a", "2")}, []op{del("b")})
	var ids []backend.RowID
	var want []backend.Row
	for _, i := range []int{3, 0, 2, 0, 1} {
		ids = append(ids, f.m.rows[i].ID())
		want = append(want, f.m.rows[i])
	}
	for _, id := range []struct {
		revision int64
		ordinal  int32
	}{{2, 2}, {5, 0}, {1, 0}, {0, 0}, {3, -1}, {4, math.MaxInt32}, {math.MaxInt64, 0}, {-1, 0}} {
		ids, want = append(ids, backend.RowID{ModRevision: id.revision, Ordinal: id.ordinal}),
			append(want, backend.Row{})
		// deletions do not change the order of the rest
		ids, want = append(ids, f.m.rows[1].ID()), append(want, f.m.rows[1])
	}
	rows, clock, err := f.b.Rows(ctx, ids, 0)
	if err != nil || clock != f.m.clock {
		f.Fatalf("clock %+v, %v", clock, err)
	}
	f.compare("rows", rows, want, false)
	if rows, _, err := f.b.Rows(ctx, nil, 0); err != nil || len(rows) != 0 {
		f.Errorf("no rows: %v, %v", rows, err)
	}
	// Many at once, so that an implementation that works in groups has several and a remainder.
	var txns [][]op
	for i := range 1111 {
		txns = append(txns, []op{put(fmt.Sprint("many", i), fmt.Sprint(i))})
	}
	f.commit(txns...)
	ids, want = nil, nil
	for i := len(f.m.rows) - 1; i >= 0; i-- {
		ids, want = append(ids, f.m.rows[i].ID()), append(want, f.m.rows[i])
	}
	rows, _, err = f.b.Rows(ctx, ids, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.compare("many rows", rows, want, false)
}
