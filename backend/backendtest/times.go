package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// commitOf returns when a revision was committed.
func (f *fixture) commitOf(revision int64) backend.Commit {
	f.Helper()
	c, clock, err := f.b.WrittenAt(context.Background(), revision)
	if err != nil || c.Revision != revision || clock != f.m.clock {
		f.Fatalf("revision %d was written at %+v, clock %+v, %v", revision, c, clock, err)
	}
	return c
}

// wantCurrent fails unless revision was current at t.
func (f *fixture) wantCurrent(t time.Time, want backend.Commit) {
	f.Helper()
	c, clock, err := f.b.CurrentAt(context.Background(), t)
	if err != nil || !c.At.Equal(want.At) || c.Revision != want.Revision || clock != f.m.clock {
		f.Fatalf("at %v: %+v, clock %+v, %v; want %+v", t, c, clock, err, want)
	}
}

func testTimes(f *fixture) {
	ctx := context.Background()
	if _, _, err := f.b.CurrentAt(ctx, time.Now()); !errors.Is(err, backend.ErrUnknownTime) {
		f.Errorf("a time in an empty store: %v", err)
	}
	// The machine's clock, or the database's, may differ a little from this process's.
	began := time.Now().Add(-time.Hour)
	f.commit([]op{put("a", "1"), put("b", "1")}, []op{put("a", "2")})
	f.commit([]op{put("c", "1")}, []op{del("b")})
	for i := range 20 {
		f.commit([]op{put(fmt.Sprint("k", i%3), "v")})
	}
	var commits []backend.Commit
	for r := int64(2); r <= f.m.clock.Revision; r++ {
		commits = append(commits, f.commitOf(r))
	}
	if !commits[0].At.Equal(commits[1].At) || !commits[2].At.Equal(commits[3].At) {
		f.Errorf("the times of a batch differ: %v", commits[:4])
	}
	if first, last := commits[0].At, commits[len(commits)-1].At; first.Before(began) ||
		last.After(began.Add(2*time.Hour)) {
		f.Errorf("from %v to %v, began at %v", first, last, began)
	}
	if !slices.IsSortedFunc(commits, func(a, b backend.Commit) int { return a.At.Compare(b.At) }) {
		f.Errorf("times decrease: %v", commits)
	}
	f.checkCurrent(commits)
	f.checkRowTimes(commits)
	if _, _, err := f.b.WrittenAt(ctx, f.m.clock.Revision+1); err == nil {
		f.Error("a time in the future")
	}
	for _, r := range []int64{0, 1} {
		if _, _, err := f.b.WrittenAt(ctx, r); !errors.Is(err, backend.ErrUnknownTime) {
			f.Errorf("the time of revision %d: %v", r, err)
		}
	}

	// Compaction leaves holes.
	f.compact(f.m.clock.Revision - 5)
	f.purge(1000)
	var left []backend.Commit
	for _, r := range f.m.retained() {
		c := f.commitOf(r.ModRevision)
		if n := len(left); n == 0 || left[n-1].Revision != c.Revision {
			left = append(left, c)
		}
	}
	if len(left) == len(commits) {
		f.Error("nothing was purged")
	}
	f.checkCurrent(left)
	if f.hooks.Reopen != nil {
		f.b = f.hooks.Reopen(f.T, f.b)
		f.checkCurrent(left)
		f.commit([]op{put("z", "1")})
		f.checkCurrent(append(left, f.commitOf(f.m.clock.Revision)))
	}
}

// checkCurrent looks for the moments of commits, and those just before and after.
func (f *fixture) checkCurrent(commits []backend.Commit) {
	f.Helper()
	for i, c := range commits {
		for _, t := range []time.Time{c.At.Add(-time.Millisecond), c.At, c.At.Add(time.Millisecond)} {
			last := slices.IndexFunc(commits, func(o backend.Commit) bool { return o.At.After(t) })
			if last < 0 {
				last = len(commits)
			}
			if last == 0 {
				if _, _, err := f.b.CurrentAt(context.Background(), t); !errors.Is(err, backend.ErrUnknownTime) {
					f.Errorf("before revision %d, %d: %v", c.Revision, i, err)
				}
				continue
			}
			f.wantCurrent(t, commits[last-1])
		}
	}
}

// checkRowTimes reads the times of commits with their rows.
func (f *fixture) checkRowTimes(commits []backend.Commit) {
	f.Helper()
	h, err := f.b.History(context.Background(), backend.HistoryQuery{
		Span: backend.Span{End: []byte{}}, Limit: 1000, WithPrev: true,
	})
	if err != nil || len(h.Changes) < len(commits) {
		f.Fatalf("%d changes, %v", len(h.Changes), err)
	}
	at := map[int64]int64{}
	for _, c := range commits {
		at[c.Revision] = c.At.UnixMilli()
	}
	for _, c := range h.Changes {
		if want := at[c.Row.ModRevision]; c.Row.WrittenAt != want {
			f.Errorf("the row of revision %d was written at %d, want %d", c.Row.ModRevision, c.Row.WrittenAt, want)
		}
		if c.Prev != nil && c.Prev.WrittenAt != at[c.Prev.ModRevision] {
			f.Errorf("the superseded row of revision %d was written at %d", c.Prev.ModRevision, c.Prev.WrittenAt)
		}
	}
}

// testDatedRows commits rows that bring their times, as those of an import do.
func testDatedRows(f *fixture) {
	ctx := context.Background()
	past := time.Date(2020, 1, 2, 3, 4, 5, 6e6, time.UTC)
	var want []backend.Commit
	commit := func(dated bool, at ...time.Time) {
		f.Helper()
		tx, err := f.b.Begin(ctx, backend.Needs{})
		if err != nil {
			f.Fatal(err)
		}
		e := &backend.Effects{Batch: 7, Dated: dated, Revision: tx.Loaded().Clock.Revision}
		for _, t := range at {
			e.Revision++
			e.Rows = append(e.Rows, backend.Row{
				Key: fmt.Append(nil, "dated/", e.Revision), Value: []byte("v"), ModRevision: e.Revision,
				CreateRevision: e.Revision, Version: 1, WrittenAt: t.UnixMilli(),
			})
			want = append(want, backend.Commit{Revision: e.Revision, At: t})
		}
		if err := tx.Commit(ctx, e); err != nil {
			f.Fatal(err)
		}
	}
	future := time.Now().Add(24 * time.Hour).Truncate(time.Millisecond)
	commit(true, past, past, past.Add(time.Second))
	commit(true, past.Add(time.Minute), future)
	commit(false, past) // the database's own time, but not before that of the row before
	want[len(want)-1].At = future
	for _, c := range want {
		if got, _, err := f.b.WrittenAt(ctx, c.Revision); err != nil || !got.At.Equal(c.At) {
			f.Errorf("revision %d was written at %v, %v; want %v", c.Revision, got.At, err, c.At)
		}
	}
	before := past.Add(time.Minute - time.Millisecond)
	if c, _, err := f.b.CurrentAt(ctx, before); err != nil || c.Revision != want[2].Revision {
		f.Errorf("current before the fourth commit: %+v, %v", c, err)
	}
	h, err := f.b.History(ctx, backend.HistoryQuery{Span: backend.Span{End: []byte{}}, Limit: 100})
	if err != nil || len(h.Changes) != len(want) {
		f.Fatalf("%d changes, %v: are they verified?", len(h.Changes), err)
	}
}
