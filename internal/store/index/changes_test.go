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

// The logs are bounded after a batch that is applied to a copy of the tree, too.
func TestLogsOfHugeBatch(t *testing.T) {
	x := loaded(0)
	var items []*Item
	for i := range 20_000 {
		r := backend.Row{Key: fmt.Appendf(nil, "k%05d", i), ModRevision: x.rev + 1, Ordinal: int32(i)}
		items = append(items, NewItem(r))
	}
	x.Apply(items, x.rev+1, 0)
	for name, l := range map[string]*undoLog{"undo": &x.undo, "growth": &x.growth} {
		if l.bytes > l.max {
			t.Errorf("%s: %d bytes, at most %d", name, l.bytes, l.max)
		}
	}
}

// Where the same keys change again and again, a read ends early, but not if it lacks a key.
func TestOldReadEndsEarly(t *testing.T) {
	for name, still := range map[string]bool{"all keys change": false, "one does not": true} {
		t.Run(name, func(t *testing.T) {
			x := loaded(64 << 20)
			apply := func(key string) {
				r := backend.Row{Key: []byte(key), ModRevision: x.rev + 1}
				x.Apply([]*Item{NewItem(r)}, r.ModRevision, 0)
			}
			for i := range 10 {
				apply(fmt.Sprintf("k%d", i))
			}
			if still {
				apply("still")
			}
			rev := x.rev
			for i := range 20_000 {
				apply(fmt.Sprintf("k%d", i%10))
			}
			x.prepare(Undo, rev, x.epoch)
			found, _, all := x.undo.find(Span{Open: true}, rev, x.tree.Count)
			if len(found) != 10 || all == still {
				t.Errorf("found %d keys, all: %v", len(found), all)
			}
		})
	}
}

// Fetched values of current rows take the space that superseded ones used.
func TestFetchedValuesTakeFreeCache(t *testing.T) {
	x := loaded(64 << 20)
	var rows []*Item
	for i := range 1000 {
		r := backend.Row{Key: fmt.Appendf(nil, "large%04d", i), ModRevision: x.rev + 1}
		rows = append(rows, NewBareItem(r))
		x.Apply(rows[i:], r.ModRevision, 0)
	}
	for i := range 24_000 {
		r := backend.Row{Key: fmt.Appendf(nil, "k%d", i%10), ModRevision: x.rev + 1, Value: make([]byte, 1000)}
		x.Apply([]*Item{NewItem(r)}, r.ModRevision, 0)
	}
	before := x.undo.values
	x.CacheValues(fetch(rows, 60_000), x.epoch)
	if most := x.undo.mostValues(); before <= most || x.undo.values > most {
		t.Errorf("before, the log had %d bytes of values, now %d, at most %d", before, x.undo.values, most)
	}
}

// Many revisions may have few changes that add or remove keys, but each has a change.
func TestLoadOfManyRevisions(t *testing.T) {
	x := New(backend.Clock{Revision: 1_000_000}, 1<<20, false)
	x.Finish(x.Position().Generation)
	for log, fits := range map[Log]bool{Undo: false, Growth: true} {
		if l := x.NewLoad(log, 1); l.Fits() != fits {
			t.Errorf("log %d: a load of a million revisions fits: %v", log, !fits)
		}
	}
}

// A batch that is applied to a copy of the tree fills the value cache, too.
func TestHugeBatchTakesFreeCache(t *testing.T) {
	x := loaded(64 << 20)
	for i := range 24_000 {
		r := backend.Row{Key: fmt.Appendf(nil, "k%d", i%10), ModRevision: x.rev + 1, Value: make([]byte, 1000)}
		x.Apply([]*Item{NewItem(r)}, r.ModRevision, 0)
	}
	before := x.undo.values
	var items []*Item
	for i := range 5000 {
		r := backend.Row{
			Key: fmt.Appendf(nil, "new%d", i), ModRevision: x.rev + 1, Ordinal: int32(i), Value: make([]byte, 14_000),
		}
		items = append(items, NewItem(r))
	}
	x.Apply(items, x.rev+1, 0)
	if most := x.undo.mostValues(); before <= most || x.undo.values > most || x.undo.spare != x.cache.free() {
		t.Errorf("before, the log had %d bytes of values, now %d, at most %d", before, x.undo.values, most)
	}
}
