package backendtest

import (
	"context"
	"fmt"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
)

// within returns the rows that fit a bound of bytes.
func within(rows []backend.Row, bytes int64, keysOnly bool) []backend.Row {
	total := int64(0)
	for i, r := range rows {
		if keysOnly {
			r.Value = nil
		}
		if total += r.Size(); bytes > 0 && total >= bytes {
			return rows[:i+1]
		}
	}
	return rows
}

// bounds are numbers of bytes that cut mixed rows: at the first one, after small ones, after large ones, and nowhere.
var bounds = []int64{0, 1, 64, 300, 4_000, 10_000, 1 << 16, 1<<16 + 100, 3 << 16, 1 << 30}

// commitMixed writes 30 keys without values, then values of all sizes in turn, with tombstones among them.
func (f *fixture) commitMixed() {
	f.Helper()
	for i := range 30 {
		f.commit([]op{put(fmt.Sprintf("a/%02d", i), "")})
	}
	for i, size := range []int{
		65_536, 10, 10_000, 4096, 4097, 1, 90_000, 90_000, 0, 300, 65_537, 400, 400, 400, 20_000, 3, 2, 1, 0, 5,
	} {
		f.commit([]op{
			put(fmt.Sprintf("b/%02d", i), strings.Repeat("x", size)),
			put("c", strings.Repeat("y", size/100)),
		}, []op{del("c")})
	}
}

func testBytesOfRanges(f *fixture) {
	f.commitMixed()
	for _, bytes := range bounds {
		for _, s := range []backend.Span{from(""), span("b/05", "b/99"), only("b/06"), from("d")} {
			for _, limit := range []int{5, 17, 100} {
				f.checkRange(backend.RangeQuery{Span: s, Revision: f.m.clock.Revision, Limit: limit, Bytes: bytes})
			}
			f.checkRange(backend.RangeQuery{
				Span: s, Revision: f.m.clock.Revision, Limit: 100, Bytes: bytes,
				KeysOnly: true,
			})
		}
	}
}

func testBytesOfRows(f *fixture) {
	f.commitMixed()
	var ids []backend.RowID
	var want []backend.Row
	for i, r := range f.m.rows {
		ids, want = append(ids, r.ID()), append(want, r)
		if i%7 == 0 {
			ids, want = append(ids, backend.RowID{ModRevision: 1000 + int64(i)}), append(want, backend.Row{}) // deleted
		}
	}
	for _, bytes := range bounds {
		for _, part := range [][2]int{
			{0, len(ids)},
			{30, len(ids)},
			{40, 50},
			{0, 1},
			{1, 2},
			{len(ids) - 20, len(ids)},
		} {
			rows, clock, err := f.b.Rows(context.Background(), ids[part[0]:part[1]], bytes)
			if err != nil || clock != f.m.clock {
				f.Fatalf("clock %+v, %v", clock, err)
			}
			f.compare(fmt.Sprintf("rows %v, %d bytes", part, bytes), rows, within(want[part[0]:part[1]], bytes, false),
				false)
		}
	}
}

func testBytesOfHistory(f *fixture) {
	f.commitMixed()
	f.commit([]op{put("b/00", "1"), put("b/02", "2")}, []op{del("b/06")}, []op{put("b/07", "3")})
	for _, bytes := range bounds {
		for _, s := range []backend.Span{{}, span("b", "c"), only("c")} {
			for _, limit := range []int{10, 1000} {
				f.checkHistory(backend.HistoryQuery{Span: s, Limit: limit, Bytes: bytes, WithPrev: bytes%2 == 0})
			}
			f.checkHistory(backend.HistoryQuery{Span: s, Limit: 1000, Bytes: bytes, KeysOnly: true, WithPrev: true})
		}
	}
}

// checkBytes fails if changes continue after the revision at which they reach q's bytes.
func (f *fixture) checkBytes(what string, q backend.HistoryQuery, changes []backend.Change) {
	f.Helper()
	total := int64(0)
	for i, c := range changes {
		if q.Bytes > 0 && total >= q.Bytes && c.Row.ModRevision != changes[i-1].Row.ModRevision {
			f.Fatalf("%s: revision %d follows %d bytes", what, c.Row.ModRevision, total)
		}
		total += c.Row.Size()
		if c.Prev != nil {
			total += c.Prev.Size()
		}
	}
}
