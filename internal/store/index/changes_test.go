package index

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// checkCounts compares counts of random spans at random revisions above first with what was there.
func (h *history) checkCounts(t *testing.T, first int64, reads int) {
	t.Helper()
	for range reads {
		rev := first + h.random.Int64N(h.rev-first+1)
		sp := Span{Start: fmt.Sprintf("k%05d", h.random.IntN(h.keys)), Open: h.random.IntN(2) == 0}
		if !sp.Open {
			sp.End = sp.Start + "~"
		}
		want := int64(0)
		for key := range h.at[rev] {
			if sp.Contains(key) {
				want++
			}
		}
		if n, ok := h.x.CountOld(rev, h.x.epoch, sp); !ok || n != want {
			t.Fatalf("revision %d, %+v: counted %d, %v, want %d", rev, sp, n, ok, want)
		}
	}
}

// Counts reach further back than rows do, because they need only the changes that add or remove keys.
func TestGrowthReachesFurther(t *testing.T) {
	h := newHistory(loaded(0), 5, 50)
	first := h.rev
	for range 40 {
		h.batch(20, 4)
	}
	all, keys := h.at[h.rev], slices.Clone(h.changes)
	var items []*Item
	for range 10_000 { // of one key, which stays
		h.rev++
		r := backend.Row{Key: []byte("k00001"), ModRevision: h.rev, PrevRevision: h.rev - 1}
		items = append(items, NewItem(r))
		h.live["k00001"] = items[len(items)-1]
		h.at = append(h.at, h.at[h.rev-1])
	}
	if _, ok := all["k00001"]; !ok {
		t.Fatalf("after %d changes, the key is missing", len(keys))
	}
	for part := range slices.Chunk(items, 100) {
		h.x.Apply(part, part[len(part)-1].ModRevision, 0)
	}
	if h.x.undo.start <= first || h.x.growth.start != first || h.x.growth.bytes > h.x.growth.max {
		t.Errorf("rows are known since revision %d, counts since %d in %d bytes",
			h.x.undo.start, h.x.growth.start, h.x.growth.bytes)
	}
	h.checkCounts(t, first, 300)
	if !h.x.CanCount(first, h.x.epoch) || h.x.CanCount(first-1, h.x.epoch) {
		t.Error("it is not known what can be counted")
	}
	for range 600 {
		h.batch(20, 4)
	}
	if start := h.x.growth.start; start == first || h.x.growth.bytes > h.x.growth.max {
		t.Errorf("counts are known since revision %d in %d bytes", start, h.x.growth.bytes)
	}
	start := min(h.x.growth.start, h.x.undo.start)
	h.checkCounts(t, start, 300)
	if _, ok := h.x.CountOld(start-1, h.x.epoch, Span{Open: true}); ok {
		t.Error("a revision before the logs was counted")
	}
}

// Counts at revisions before a start need only the changes that added or removed keys.
func TestGrowthLoad(t *testing.T) {
	h := newHistory(loaded(64<<20), 6, 300)
	first := h.rev
	h.batch(1500, 8)
	split := h.rev
	h.restart(t)
	h.batch(700, 8)
	if _, ok := h.x.CountOld(split-1, h.x.epoch, Span{Open: true}); ok {
		t.Error("a revision before the start was counted")
	}
	middle := (first + split) / 2
	for _, after := range []int64{middle, first} {
		l := h.load(t, Growth, after)
		if l.WithPrev() {
			t.Error("the load asks for rows")
		}
		h.x.Prepend(l)
		if n := h.x.Unknown(Growth, after, h.x.epoch); n != 0 {
			t.Errorf("%d revisions are unknown", n)
		}
		h.checkCounts(t, after, 300)
	}
	if n := h.x.Unknown(Undo, first, h.x.epoch); n != split-first {
		t.Errorf("the rows of %d revisions are unknown, want %d", n, split-first)
	}
	h.check(t, split, 100)
}
