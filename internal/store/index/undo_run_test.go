package index

import (
	"math"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// checkRuns compares the runs of reads at random revisions with the blocks that they stand for.
func (h *history) checkRuns(t *testing.T, reads int) {
	t.Helper()
	l := &h.x.undo
	bound := 1
	if n := len(l.blocks); n > 1 {
		bound = 2 * (undoFan - 1) * (1 + int(math.Log(float64(n))/math.Log(undoFan)))
	}
	for range reads {
		rev := l.start + h.random.Int64N(h.rev-l.start+1)
		_, unmerged := l.since(rev)
		for _, r := range unmerged {
			if r.undos == nil && !r.prepared.Load() {
				t.Fatal("a read has to merge runs while it holds the lock")
			}
		}
		for len(l.unprepared(rev)) > 0 {
			prepareAll(l.unprepared(rev))
		}
		_, runs := l.since(rev)
		if len(runs) > bound {
			t.Fatalf("a read searches %d runs of %d blocks", len(runs), len(l.blocks))
		}
		blocks := l.blocks[l.newer(rev):]
		if len(blocks) > 0 && blocks[0].undos[0].rev <= rev {
			blocks = blocks[1:]
		}
		for _, r := range runs {
			var undos []undo
			for n := 1 << (3 * len(blocks[0].larger)); n > 0; n-- {
				undos, blocks = append(undos, blocks[0].undos...), blocks[1:]
			}
			if !slices.EqualFunc(r.first, sorted(undos), func(a, b keyUndo) bool {
				return *a.undo == *b.undo && a.total == b.total
			}) {
				t.Fatalf("revision %d: a run of %d changes differs from its blocks", rev, len(undos))
			}
		}
		if len(blocks) > 0 {
			t.Fatalf("revision %d: no run has the last %d blocks", rev, len(blocks))
		}
	}
}

// checkValues checks that the values of superseded rows which a read at rev fetches stay in the log.
func (h *history) checkValues(t *testing.T, rev int64) {
	t.Helper()
	items, _, _ := h.x.WalkOld(t.Context(), rev, h.x.epoch, Span{Open: true}, h.keys)
	fetched := fetch(items, 4)
	h.x.CacheValues(fetched, h.x.epoch)
	items, _, _ = h.x.WalkOld(t.Context(), rev, h.x.epoch, Span{Open: true}, h.keys)
	for _, it := range items {
		if !it.Cached() {
			t.Errorf("revision %d: the value of %s at revision %d is not in the log", rev, it.Key, it.ModRevision)
		}
	}
	if len(fetched) == 0 {
		t.Errorf("revision %d: no value had to be fetched", rev)
	}
}

// The blocks of a log form larger runs, in whatever way the log grows and shrinks.
func TestUndoRuns(t *testing.T) {
	h := newHistory(loaded(512<<20), 7, 20)
	grow := func(revisions int) {
		for n := range revisions / 100 {
			h.batch(1+h.random.IntN(200), 4)
			if n%20 == 0 {
				h.checkRuns(t, 1)
				h.check(t, h.x.undo.start, 1)
			}
		}
		h.batch(6000, 4) // is applied to a copy of the tree
	}
	check := func(levels int) {
		t.Helper()
		h.checkRuns(t, 10)
		h.check(t, h.x.undo.start, 100)
		most := 0
		for _, b := range h.x.undo.blocks {
			most = max(most, len(b.larger))
		}
		if most != levels {
			t.Errorf("%d blocks form %d levels of runs, want %d", len(h.x.undo.blocks), most, levels)
		}
	}
	grow(12_000)
	check(2)

	split := h.rev
	h.x.Reset(backend.Clock{Revision: split, Epoch: h.x.epoch})
	var rows []backend.Row
	for _, it := range h.live {
		rows = append(rows, it.Row)
	}
	if generation := h.x.Position().Generation; !h.x.Load(generation, rows) || !h.x.Finish(generation) {
		t.Fatal("not loaded")
	}
	grow(2000)
	check(1)
	for _, after := range []int64{split - 500, split / 2, 0} {
		l := h.x.NewLoad(Undo, after)
		for _, c := range h.changes {
			if c.Row.ModRevision > after && c.Row.ModRevision <= l.Until {
				l.log.add(&c.Row, prevItem(c))
			}
		}
		if h.x.Prepend(l); h.x.undo.start != after {
			t.Fatalf("the log begins at %d, want %d", h.x.undo.start, after)
		}
		h.checkValues(t, (after+l.Until)/2)
		h.checkRuns(t, 10)
		h.check(t, max(after, 1), 100)
	}
	check(2)

	h.x.Apply(nil, h.rev, split)
	check(1)
	grow(1000)
	check(2)
}

func prevItem(c backend.Change) *Item {
	if c.Prev == nil {
		return nil
	}
	return NewBareItem(*c.Prev)
}
