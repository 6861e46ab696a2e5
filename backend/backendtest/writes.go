package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// begin starts a transaction and ends it with the test at the latest.
func (f *fixture) begin(n backend.Needs) backend.Tx {
	f.Helper()
	tx, err := f.b.Begin(context.Background(), n)
	if err != nil {
		f.Fatal(err)
	}
	return tx
}

// checkLoaded compares what a transaction has loaded with the model.
func (f *fixture) checkLoaded(n backend.Needs, want ...string) {
	f.Helper()
	tx := f.begin(n)
	defer tx.Rollback()
	l := tx.Loaded()
	if l.Clock != f.m.clock {
		f.Errorf("clock %+v, want %+v", l.Clock, f.m.clock)
	}
	var rows []backend.Row
	for _, k := range want {
		rows = append(rows, *f.m.newest([]byte(k)))
	}
	f.compare(fmt.Sprintf("needs %+v", n), l.Rows, rows, false)
}

func testBeginLoads(f *fixture) {
	f.commit([]op{put("a", "1"), put("b", ""), put("c", "1"), put("d", "1"), put("x", "1")})
	f.commit([]op{put("a", "2"), del("c")}, []op{put("d", "2"), del("d")})
	keys := func(k ...string) (out [][]byte) {
		for _, s := range k {
			out = append(out, []byte(s))
		}
		return out
	}
	f.checkLoaded(backend.Needs{})
	f.checkLoaded(backend.Needs{Keys: keys("b", "none", "a", "c", "d", "b")}, "a", "b")
	f.checkLoaded(backend.Needs{Spans: []backend.Span{span("a", "x")}, SpanLimit: 2}, "a", "b")
	f.checkLoaded(backend.Needs{Spans: []backend.Span{from("b"), only("a"), only("c"), only("d")}, SpanLimit: 10}, "a",
		"b", "x")
	f.checkLoaded(backend.Needs{Spans: []backend.Span{from("b")}, Keys: keys("x", "a"), SpanLimit: 2}, "a", "b", "x")
	for _, n := range []backend.Needs{
		{Spans: []backend.Span{from("")}, SpanLimit: 2},
		{Spans: []backend.Span{only("a")}},
		{Spans: []backend.Span{only("a"), only("b"), only("x")}, SpanLimit: 2},
	} {
		tx, err := f.b.Begin(context.Background(), n)
		f.wantErr("too many rows", err, backend.ErrTooManyRows)
		if err == nil {
			tx.Rollback()
		}
	}
	f.commit([]op{put("a", "3")}) // a refused Begin holds nothing
}

func testBeginLoadsLeases(f *fixture) {
	on := func(key string, lease int64) op { return op{key: key, value: "v", lease: lease} }
	f.commit([]op{on("a", 7), on("b", 7), on("c", 8), on("d", 7), on("e", 7)})
	f.commit([]op{on("b", 8)}, []op{del("d")}, []op{on("e", 0)}, []op{on("e", 7)}, []op{on("f", 7), del("f")})
	f.checkAttached(backend.Needs{LeaseKeys: []int64{7}, LeaseLimit: 2}, "a", "e")
	f.checkAttached(backend.Needs{LeaseKeys: []int64{8, 9}, LeaseLimit: 10}, "b", "c")
	f.checkAttached(backend.Needs{LeaseKeys: []int64{8, 7}, Keys: [][]byte{[]byte("a")}, LeaseLimit: 4}, "a", "b", "c",
		"e")
	f.checkAttached(backend.Needs{LeaseKeys: []int64{0}, LeaseLimit: 1})
	// For one lease with too many rows the answer has one row too many; several get no answer.
	tx := f.begin(backend.Needs{LeaseKeys: []int64{7}, LeaseLimit: 0})
	if rows := tx.Loaded().LeaseRows; len(rows) != 1 || rows[0].Lease != 7 {
		f.Errorf("a lease of two rows where none is allowed: %s", show(rows))
	}
	tx.Rollback()
	_, err := f.b.Begin(context.Background(), backend.Needs{LeaseKeys: []int64{7, 8}, LeaseLimit: 3})
	f.wantErr("leases of four rows where three are allowed", err, backend.ErrTooManyRows)
	f.commit([]op{put("a", "3")}) // a refused Begin holds nothing
}

// checkAttached checks the rows of leases, which have no values.
func (f *fixture) checkAttached(n backend.Needs, want ...string) {
	f.Helper()
	tx := f.begin(n)
	defer tx.Rollback()
	got := slices.Clone(tx.Loaded().LeaseRows)
	slices.SortFunc(got, func(a, b backend.Row) int { return bytes.Compare(a.Key, b.Key) })
	var rows []backend.Row
	for _, k := range want {
		rows = append(rows, *f.m.newest([]byte(k)))
	}
	f.compare(fmt.Sprintf("attached to %+v", n), got, rows, true)
}

func testBeginExcludes(f *fixture) {
	first := f.begin(backend.Needs{})
	got := make(chan int64)
	go func() {
		tx, err := f.b.Begin(context.Background(), backend.Needs{})
		if err != nil {
			f.Error(err)
			close(got)
			return
		}
		got <- tx.Loaded().Clock.Revision
		tx.Rollback()
		close(got)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := f.b.Begin(ctx, backend.Needs{})
	f.wantErr("a Begin that waits in vain", err, context.DeadlineExceeded)
	e := backend.Effects{Rows: f.m.add([]op{put("a", "1")}), Revision: f.m.clock.Revision}
	if err := first.Commit(context.Background(), &e); err != nil {
		f.Fatal(err)
	}
	first.Rollback() // after the end, nothing
	if r := <-got; r != f.m.clock.Revision {
		f.Errorf("the next transaction starts at %d, want %d", r, f.m.clock.Revision)
	}
	<-got
}

func testRollback(f *fixture) {
	f.commit([]op{put("a", "1")})
	f.begin(backend.Needs{Keys: [][]byte{[]byte("a")}}).Rollback()
	f.begin(backend.Needs{}).Rollback()
	if c, err := f.b.Clock(context.Background()); err != nil || c != f.m.clock {
		f.Errorf("clock %+v, %v", c, err)
	}
	f.commit([]op{put("a", "2")})
	f.checkHistory(backend.HistoryQuery{Limit: 10})
}

func testRefusedCommit(f *fixture) {
	ctx := context.Background()
	f.commit([]op{put("a", "1")})
	f.apply(&backend.Effects{Granted: []backend.Lease{{ID: 1, TTL: time.Second}}})
	before := f.m.clock
	good := backend.Row{Key: []byte("b"), Value: []byte("1"), ModRevision: 3, CreateRevision: 3, Version: 1}
	for name, bad := range map[string]backend.Effects{
		"a row's identity twice": {Rows: []backend.Row{good, good}},
		"a lease twice": {
			Rows:    []backend.Row{good},
			Granted: []backend.Lease{{ID: 2, TTL: time.Second}, {ID: 1, TTL: time.Second}},
		},
	} {
		bad.Revision = 3
		err := f.begin(backend.Needs{}).Commit(ctx, &bad)
		f.wantErr(name, err, backend.ErrRejected)
		if c, err := f.b.Clock(ctx); err != nil || c != before {
			f.Errorf("%s: clock %+v, %v", name, c, err)
		}
		f.checkRange(backend.RangeQuery{Span: everything, Revision: 3, Limit: 10})
	}
	if l, err := f.b.Leases(ctx); err != nil || len(l) != 1 {
		f.Errorf("leases %v, %v", l, err)
	}
	f.commit([]op{put("b", "1")})
	f.checkHistory(backend.HistoryQuery{Limit: 10})
}

// testCompactedNeverFalls commits outdated compactions.
func testCompactedNeverFalls(f *fixture) {
	ctx := context.Background()
	for range 5 {
		f.commit([]op{put("a", "1")})
	}
	revision := f.m.clock.Revision
	for _, c := range []struct{ compact, want int64 }{
		{0, 0},
		{-1, -1},
		{0, -1},
		{2, 2},
		{-1, 2},
		{0, 2},
		{1, 2},
		{4, 4},
		{3, 4},
		{4, 4},
	} {
		err := f.begin(backend.Needs{}).Commit(ctx,
			&backend.Effects{Revision: revision, Compacted: c.compact, Batch: 1})
		if err != nil {
			f.Fatal(err)
		}
		if clock, err := f.b.Clock(ctx); err != nil || clock.Compacted != c.want {
			f.Errorf("after a compaction at %d: %+v, %v; want %d", c.compact, clock, err, c.want)
		}
	}
}

func testLeasesAndAlarms(f *fixture) {
	ctx := context.Background()
	a, b, c := backend.Lease{ID: -5, TTL: time.Second}, backend.Lease{ID: 1, TTL: 9_000_000_000 * time.Second},
		backend.Lease{ID: 1 << 62, TTL: time.Hour}
	x, y := backend.Alarm{Member: 1 << 62, Kind: 1}, backend.Alarm{Member: 1 << 62, Kind: 2}
	check := func(leases []backend.Lease, alarms []backend.Alarm) {
		f.Helper()
		got, err := f.b.Leases(ctx)
		slices.SortFunc(got, func(a, b backend.Lease) int { return int(min(max(a.ID-b.ID, -1), 1)) })
		if err != nil || !slices.Equal(got, leases) {
			f.Errorf("leases %v, %v; want %v", got, err, leases)
		}
		raised, err := f.b.Alarms(ctx)
		slices.SortFunc(raised, func(a, b backend.Alarm) int { return int(a.Kind - b.Kind) })
		if err != nil || !slices.Equal(raised, alarms) {
			f.Errorf("alarms %v, %v; want %v", raised, err, alarms)
		}
	}
	f.apply(&backend.Effects{Granted: []backend.Lease{a, b}, Raised: []backend.Alarm{x}})
	check([]backend.Lease{a, b}, []backend.Alarm{x})
	f.apply(&backend.Effects{Granted: []backend.Lease{c}, Revoked: []int64{1, 99}, Raised: []backend.Alarm{x, y}})
	check([]backend.Lease{a, c}, []backend.Alarm{x, y})
	f.apply(&backend.Effects{Granted: []backend.Lease{b}, Cleared: []backend.Alarm{x}})
	check([]backend.Lease{a, b, c}, []backend.Alarm{y})
	ending := b
	ending.Ending = true
	for range 2 {
		f.apply(&backend.Effects{Ending: []int64{b.ID, 99}})
		check([]backend.Lease{a, ending, c}, []backend.Alarm{y})
	}
	f.apply(&backend.Effects{Revoked: []int64{a.ID, b.ID, c.ID}, Cleared: []backend.Alarm{y, x}})
	check(nil, nil)
}

// testContexts calls every method with a context that has ended.
func testContexts(f *fixture) {
	f.commit([]op{put("a", "1")})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.everyMethod(ctx, func(name string, err error) {
		f.wantErr(name, err, context.Canceled)
	})
	f.commit([]op{put("a", "2")})
}

func testClose(f *fixture) {
	f.commit([]op{put("a", "1")})
	for range 2 {
		if err := f.b.Close(); err != nil {
			f.Fatal(err)
		}
	}
	f.everyMethod(context.Background(), func(name string, err error) { f.wantErr(name, err, backend.ErrClosed) })
	if _, err := f.b.Clock(context.Background()); err == nil {
		f.Error("a closed backend returns its clock")
	}
}

// everyMethod calls each method that needs the database and returns the errors.
func (f *fixture) everyMethod(ctx context.Context, check func(name string, err error)) {
	_, _, err := f.b.Range(ctx, backend.RangeQuery{Span: everything, Revision: 1, Limit: 1})
	check("Range", err)
	_, _, err = f.b.Count(ctx, backend.RangeQuery{Span: everything, Revision: 1})
	check("Count", err)
	_, _, err = f.b.Rows(ctx, []backend.RowID{{ModRevision: 2}}, 0)
	check("Rows", err)
	_, err = f.b.History(ctx, backend.HistoryQuery{Limit: 1})
	check("History", err)
	_, err = f.b.Leases(ctx)
	check("Leases", err)
	_, err = f.b.Alarms(ctx)
	check("Alarms", err)
	_, err = f.b.TokenKeys(ctx)
	check("TokenKeys", err)
	check("AddTokenKey", f.b.AddTokenKey(ctx, 0, []byte("k")))
	check("DropTokenKeys", f.b.DropTokenKeys(ctx, 1))
	_, err = f.b.Begin(ctx, backend.Needs{})
	check("Begin", err)
	_, err = f.b.Purge(ctx, 1, math.MaxInt64)
	check("Purge", err)
	_, _, err = f.b.Reclaim(ctx, 1)
	check("Reclaim", err)
	check("Defragment", f.b.Defragment(ctx))
	_, err = f.b.Size(ctx)
	check("Size", err)
}

func testReopen(f *fixture) {
	ctx := context.Background()
	settings, err := f.b.Settings(ctx)
	if err != nil {
		f.Fatal(err)
	}
	lease, alarm := backend.Lease{ID: 5, TTL: time.Minute}, backend.Alarm{Member: 3, Kind: 1}
	f.apply(&backend.Effects{Granted: []backend.Lease{lease}, Raised: []backend.Alarm{alarm}})
	if err := f.b.AddTokenKey(ctx, 0, []byte("secret")); err != nil {
		f.Fatal(err)
	}
	var txns [][]op
	for i := range 300 {
		txns = append(txns, []op{put(fmt.Sprint("k", i%40), fmt.Sprint(i)), put("all", "v")},
			[]op{del(fmt.Sprint("k", i%7))})
	}
	f.commit(txns...)
	f.compact(200)
	if _, err := f.b.Purge(ctx, 50, math.MaxInt64); err != nil {
		f.Fatal(err)
	}
	for range 2 {
		f.b = f.hooks.Reopen(f.T, f.b)
		if c, err := f.b.Clock(ctx); err != nil || c != f.m.clock {
			f.Fatalf("clock %+v, %v; want %+v", c, err, f.m.clock)
		}
		if s, err := f.b.Settings(ctx); err != nil || s != settings {
			f.Errorf("settings %+v, %v; want %+v", s, err, settings)
		}
		if l, err := f.b.Leases(ctx); err != nil || !slices.Equal(l, []backend.Lease{lease}) {
			f.Errorf("leases %v, %v", l, err)
		}
		if a, err := f.b.Alarms(ctx); err != nil || !slices.Equal(a, []backend.Alarm{alarm}) {
			f.Errorf("alarms %v, %v", a, err)
		}
		f.checkTokenKeys("1=secret")
		for r := f.m.clock.Compacted; r <= f.m.clock.Revision; r += 13 {
			f.checkRange(backend.RangeQuery{Span: everything, Revision: r, Limit: 1000})
		}
		f.checkHistory(backend.HistoryQuery{After: f.m.clock.Compacted - 1, Limit: 100, WithPrev: true})
		f.commit([]op{put("after", "reopening")})
	}
	f.purge(1000)
	f.checkRetained()
}
