package index

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// history writes random rows to an index, and remembers what every revision looked like.
type history struct {
	x       *Index
	random  *rand.Rand
	keys    int
	rev     int64
	live    map[string]*Item
	at      []map[string]*Item // by revision
	changes []backend.Change
}

func newHistory(x *Index, seed uint64, keys int) *history {
	return &history{
		x: x, random: rand.New(rand.NewPCG(seed, 1)), keys: keys, rev: x.rev,
		live: map[string]*Item{}, at: make([]map[string]*Item, x.rev+1),
	}
}

// batch applies that many revisions of one to three rows each. A revision may end a key and begin it again.
func (h *history) batch(revisions, valueBytes int) {
	var items []*Item
	for range revisions {
		h.rev++
		for range 1 + h.random.IntN(3) {
			key := fmt.Sprintf("k%05d", h.random.IntN(h.keys))
			old := h.live[key]
			if old != nil && h.random.IntN(3) == 0 {
				items = append(items, h.row(key, old, true, 0))
				old = nil
				if h.random.IntN(2) == 0 {
					continue
				}
			}
			items = append(items, h.row(key, old, false, valueBytes))
		}
		h.at = append(h.at, maps.Clone(h.live))
	}
	h.x.Apply(items, h.rev, 0)
}

func (h *history) row(key string, old *Item, deleted bool, valueBytes int) *Item {
	r := backend.Row{
		Key: []byte(key), ModRevision: h.rev, Ordinal: int32(len(h.changes)), Deleted: deleted,
		Value: make([]byte, valueBytes),
	}
	c := backend.Change{Row: r}
	if old != nil {
		c.Row.PrevRevision, c.Prev = old.ModRevision, &old.Row
	}
	h.changes = append(h.changes, c)
	it := NewItem(c.Row)
	if deleted {
		delete(h.live, key)
	} else {
		h.live[key] = it
	}
	return it
}

// check compares reads of random spans at random revisions above first with what was there.
func (h *history) check(t *testing.T, first int64, reads int) {
	t.Helper()
	for range reads {
		rev := first + h.random.Int64N(h.rev-first+1)
		sp := Span{Start: fmt.Sprintf("k%05d", h.random.IntN(h.keys)), Open: h.random.IntN(2) == 0}
		if !sp.Open {
			sp.End = fmt.Sprintf("k%05d", h.random.IntN(h.keys+1))
			sp.Start, sp.End = min(sp.Start, sp.End), max(sp.Start, sp.End)+"\x00"
		}
		if sp.Open && h.random.IntN(2) == 0 {
			sp.Start = ""
		}
		var want []backend.RowID
		for _, key := range slices.Sorted(maps.Keys(h.at[rev])) {
			if sp.Contains(key) {
				want = append(want, h.at[rev][key].ID())
			}
		}
		limit := h.random.IntN(2 * h.keys)
		items, more, ok := h.x.WalkOld(t.Context(), rev, h.x.epoch, sp, limit)
		count, counted := h.x.CountOld(rev, h.x.epoch, sp)
		if !ok || !counted || count != int64(len(want)) || more != (len(want) > limit) {
			t.Fatalf("revision %d, %+v, limit %d: count %d %v, more %v %v, want %d",
				rev, sp, limit, count, counted, more, ok, len(want))
		}
		var got []backend.RowID
		for _, it := range items {
			got = append(got, it.ID())
		}
		if !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Fatalf("revision %d, %+v, limit %d:\n got %v\nwant %v", rev, sp, limit, got, want)
		}
	}
}

func TestOlderRevisions(t *testing.T) {
	for _, keys := range []int{1, 10, 400, 1500} {
		t.Run(fmt.Sprint(keys), func(t *testing.T) {
			h := newHistory(loaded(64<<20), 1, keys)
			first := h.rev
			for range 30 {
				h.batch(1+h.random.IntN(80), 4)
				h.check(t, first, 20)
			}
			before := len(h.changes)
			h.batch(3000, 4) // is applied to a copy of the tree
			if n := len(h.changes) - before; n <= applyAtOnce {
				t.Errorf("the batch has %d rows", n)
			}
			h.check(t, first, 200)
			h.batch(10, 4)
			h.check(t, first, 200)
			if len(h.x.undo.blocks) < 3 {
				t.Errorf("%d blocks", len(h.x.undo.blocks))
			}
		})
	}
}

// What does not fit any more, or is compacted, is not answered.
func TestUndoLogIsBounded(t *testing.T) {
	h := newHistory(loaded(0), 2, 50)
	for range 200 {
		h.batch(20, 2000)
		u := &h.x.undo
		bytes, values := int64(0), int64(0)
		for _, b := range append(slices.Clone(u.blocks), u.tail) {
			bytes, values = bytes+b.bytes, values+b.values
			old := int64(0)
			for i := range b.undos {
				if o := b.undos[i].old; o != nil {
					old += int64(len(o.Value))
				}
			}
			if old != b.values {
				t.Fatalf("a block has %d bytes of values, and counts %d", old, b.values)
			}
		}
		if bytes != u.bytes || values != u.values || bytes > undoMin || values > undoMin/undoValues {
			t.Fatalf("the blocks have %d bytes, %d of values; the log counts %d and %d",
				bytes, values, u.bytes, u.values)
		}
	}
	start := h.x.undo.start
	if start == 0 || h.rev-start < 200 {
		t.Errorf("after revision %d, the log begins at %d", h.rev, start)
	}
	h.check(t, start, 100)
	if _, _, ok := h.x.WalkOld(t.Context(), start-1, h.x.epoch, Span{Open: true}, 1); ok {
		t.Error("a revision before the log was read")
	}
	if _, _, ok := h.x.WalkOld(t.Context(), h.rev+1, h.x.epoch, Span{Open: true}, 1); ok {
		t.Error("a future revision was read")
	}
	if _, ok := h.x.CountOld(h.rev, h.x.epoch+1, Span{Open: true}); ok {
		t.Error("a revision of another epoch was counted")
	}
	h.x.Apply(nil, h.rev, h.rev)
	if n := len(h.x.undo.blocks); n != 0 {
		t.Errorf("%d blocks are left after a compaction of everything", n)
	}
	h.x.Reset(backend.Clock{Revision: h.rev, Epoch: h.x.epoch})
	if _, ok := h.x.CountOld(h.rev, h.x.epoch, Span{Open: true}); ok {
		t.Error("an empty index counted keys")
	}
}

// restart empties the index and loads the current rows.
func (h *history) restart(t *testing.T) {
	t.Helper()
	h.x.Reset(backend.Clock{Revision: h.rev, Epoch: h.x.epoch})
	var rows []backend.Row
	for _, it := range h.live {
		rows = append(rows, it.Row)
	}
	generation := h.x.Position().Generation
	if !h.x.Load(generation, rows) || !h.x.Finish(generation) {
		t.Fatal("not loaded")
	}
}

// load collects the changes after a revision for a log.
func (h *history) load(t *testing.T, log Log, after int64) *Load {
	t.Helper()
	l := h.x.NewLoad(log, after)
	if l == nil {
		t.Fatalf("nothing to load after %d", after)
	}
	wanted := slices.DeleteFunc(slices.Clone(h.changes), func(c backend.Change) bool {
		return c.Row.ModRevision <= after || c.Row.ModRevision > l.Until
	})
	for len(wanted) > 0 {
		n := min(100, len(wanted))
		for n < len(wanted) && wanted[n].Row.ModRevision == wanted[n-1].Row.ModRevision {
			n++
		}
		if ok, excessive := l.Add(wanted[:n]); !ok || excessive || !l.Fits() {
			t.Fatal("the changes do not fit")
		}
		wanted = wanted[n:]
	}
	return l
}

// Changes from before the log, which the database has, extend it.
func TestUndoLoad(t *testing.T) {
	h := newHistory(loaded(64<<20), 3, 300)
	first := h.rev
	h.batch(1500, 8)
	split := h.rev
	h.restart(t)
	h.batch(700, 8)
	h.check(t, split, 100)

	middle := (first + split) / 2
	load := func(after int64) *Load { return h.load(t, Undo, after) }
	if n := h.x.Unknown(Undo, middle, h.x.epoch); n != split-middle {
		t.Errorf("%d revisions are unknown, want %d", n, split-middle)
	}
	l, late := load(middle), load(first)
	h.x.Prepend(l)
	h.check(t, middle, 300)
	h.x.Prepend(late) // it ends where the log has ceased to begin
	if n := h.x.Unknown(Undo, first, h.x.epoch); n != middle-first {
		t.Errorf("%d revisions are unknown, want %d", n, middle-first)
	}
	h.x.Prepend(load(first))
	h.check(t, first, 300)
	if h.x.NewLoad(Undo, first) != nil || h.x.Unknown(Undo, first, h.x.epoch) != 0 {
		t.Error("what is known is loaded again")
	}

	// Values that reads fetch stay in the log.
	all := Span{Open: true}
	items, _, _ := h.x.WalkOld(t.Context(), middle, h.x.epoch, all, 1000)
	fetched := fetch(items, 8)
	before := h.x.undo.values
	h.x.CacheValues(fetched, h.x.epoch)
	h.check(t, first, 100)
	items, _, _ = h.x.WalkOld(t.Context(), middle, h.x.epoch, all, 1000)
	cold := 0
	for _, it := range items {
		if !it.Cached() {
			cold++
		}
	}
	if cold > len(fetched)/10 || h.x.undo.values == before {
		t.Errorf("%d of %d rows have no value, the log has %d bytes of values more",
			cold, len(fetched), h.x.undo.values-before)
	}
}

// fetch returns those of items that have no value, with one of so many bytes.
func fetch(items []*Item, value int) (fetched []*Item) {
	for _, it := range items {
		if !it.Cached() {
			r := it.Row
			r.Value = make([]byte, value)
			fetched = append(fetched, NewItem(r))
		}
	}
	return fetched
}

// A read for which most of the current rows are too new takes few steps.
func TestOldReadSkipsNewKeys(t *testing.T) {
	h := newHistory(loaded(64<<20), 4, 10)
	h.batch(10, 1)
	rev := h.rev
	var items []*Item
	for i := range 4000 {
		row := backend.Row{Key: fmt.Appendf(nil, "a%04d", i), ModRevision: rev + 1, Ordinal: int32(i)}
		items = append(items, NewItem(row))
	}
	h.x.Apply(items, rev+1, 0)
	parts, sp := 0, Span{Open: true}
	for rest := true; rest; parts++ {
		_, sp, rest, _ = h.x.walkOld(rev, h.x.epoch, sp, oldPart, nil)
	}
	if parts > 10 {
		t.Errorf("%d parts", parts)
	}
	got, more, ok := h.x.WalkOld(t.Context(), rev, h.x.epoch, Span{Open: true}, 1)
	if !ok || len(got) != 1 || string(got[0].Key) < "k" || more != (len(h.at[rev]) > 1) {
		t.Errorf("got %d rows, more %v %v", len(got), more, ok)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, ok := h.x.WalkOld(ctx, rev, h.x.epoch, Span{Open: true}, 1); ok {
		t.Error("a read goes on after its context ended")
	}
}

// Values give way to rows, so that the log reaches far back, but not all of them.
func TestUndoLogPrefersRows(t *testing.T) {
	h := newHistory(loaded(0), 3, 200)
	for range 300 {
		h.batch(100, 400)
		h.at, h.changes = h.at[:0], h.changes[:0]
	}
	u := &h.x.undo
	rows, most := u.rows()
	if rows > most || rows < most*3/4 || u.values < undoMin/undoLeastValues/2 || u.bytes > undoMin {
		t.Errorf("the log has %d bytes of rows, at most %d, and %d of values", rows, most, u.values)
	}
}

// Superseded values may use what current values leave free in the value cache.
func TestUndoLogUsesFreeCache(t *testing.T) {
	x := loaded(64 << 20)
	apply := func(key string, value int) {
		r := backend.Row{Key: []byte(key), ModRevision: x.rev + 1, Value: make([]byte, value)}
		x.Apply([]*Item{NewItem(r)}, r.ModRevision, 0)
	}
	for i := range 24_000 {
		apply(fmt.Sprintf("k%d", i%10), 1000)
	}
	half := x.undo.max / undoValues
	if x.undo.values <= half {
		t.Errorf("the log has %d bytes of values, although the cache has %d free", x.undo.values, x.cache.free())
	}
	for range 10 {
		for i := range 1100 {
			apply(fmt.Sprintf("large%d", i), 60_000)
		}
	}
	if free := x.cache.free(); x.undo.values > half || free > half {
		t.Errorf("the log has %d bytes of values, and the cache has %d free", x.undo.values, free)
	}
}

// A commit drops few values at a time, even if loaded rows or a smaller bound leave many.
func TestUndoLogDropsValuesInParts(t *testing.T) {
	l := newUndoLog(0, 1<<26)
	for rev := int64(1); rev <= 30_000; rev++ {
		r := backend.Row{Key: fmt.Appendf(nil, "k%d", rev), ModRevision: rev, PrevRevision: 1}
		l.add(&r, NewItem(backend.Row{Key: r.Key, ModRevision: 1, Value: make([]byte, 1000)}))
	}
	l.commit(0)
	l.max /= 2
	for parts := 1; ; parts++ {
		before := l.values
		l.commit(0)
		switch dropped := (before - l.values) / 1000; {
		case dropped > 2*applyAtOnce:
			t.Fatalf("a commit dropped %d values", dropped)
		case dropped > 0:
			continue
		case parts < 3 || l.values > l.mostValues():
			t.Errorf("after %d commits, the log has %d bytes of values", parts, l.values)
		}
		return
	}
}

// Large values do not make the log hold many almost empty blocks.
func TestUndoLogOfLargeValues(t *testing.T) {
	h := newHistory(loaded(0), 5, 3)
	for range 5000 {
		h.batch(1, undoLargest)
		h.at, h.changes = h.at[:0], h.changes[:0]
	}
	if n, u := len(h.x.undo.blocks), &h.x.undo; n == 0 || n > 20 || u.values > undoMin/undoValues || u.start == 0 {
		t.Errorf("%d blocks with %d bytes of values", n, u.values)
	}
}

// Values that are very large are not in the log, whether they were in memory or fetched; the keys are.
func TestUndoLogWithoutLargestValues(t *testing.T) {
	x := New(backend.Clock{}, 64<<20, false)
	x.Finish(x.Position().Generation)
	var rows []backend.Row
	for rev, size := range []int{undoLargest + 1, undoLargest, 0} {
		row := backend.Row{Key: []byte("k"), Value: make([]byte, size), ModRevision: int64(rev + 1)}
		rows = append(rows, row)
		x.Apply([]*Item{NewItem(row)}, row.ModRevision, 0)
	}
	x.undo.seal()
	check := func() {
		t.Helper()
		for rev, want := range map[int64]bool{1: false, 2: true} {
			items, _, ok := x.WalkOld(t.Context(), rev, x.epoch, Span{Open: true}, 10)
			if !ok || len(items) != 1 || items[0].ModRevision != rev || items[0].Cached() != want {
				t.Errorf("at revision %d: %+v, %v", rev, items, ok)
			}
		}
		if x.undo.values != undoLargest {
			t.Errorf("%d bytes of values", x.undo.values)
		}
	}
	check()
	x.undo.strip()
	x.CacheValues([]*Item{NewItem(rows[0]), NewItem(rows[1])}, x.epoch)
	check()
}

// What was loaded is dropped if it does not belong to the log any more.
func TestStaleLoad(t *testing.T) {
	for _, log := range []Log{Undo, Growth} {
		t.Run(fmt.Sprint(log), func(t *testing.T) { testStaleLoad(t, log) })
	}
}

func testStaleLoad(t *testing.T, log Log) {
	for name, change := range map[string]func(x *Index, l *Load){
		"reset": func(x *Index, _ *Load) {
			x.Reset(x.Position().Clock)
			x.Finish(x.Position().Generation)
		},
		"compaction":   func(x *Index, l *Load) { x.Apply(nil, x.rev, l.After+1) },
		"too many":     func(x *Index, l *Load) { l.log.bytes = x.log(log).max },
		"another load": func(x *Index, _ *Load) { x.Prepend(x.NewLoad(log, 90)) },
	} {
		t.Run(name, func(t *testing.T) {
			x := New(backend.Clock{Revision: 100}, 1<<20, false)
			x.Finish(x.Position().Generation)
			l := x.NewLoad(log, 50)
			change(x, l)
			x.Prepend(l)
			if _, ok := x.CountOld(60, x.epoch, Span{Open: true}); ok || x.log(log).start < 90 {
				t.Errorf("the log starts at %d", x.log(log).start)
			}
		})
	}
}

func TestUndoLoadRefusesGaps(t *testing.T) {
	x := New(backend.Clock{Revision: 100}, 1<<20, false)
	x.Finish(x.Position().Generation)
	row := backend.Row{Key: []byte("k"), ModRevision: 60, PrevRevision: 55}
	if ok, _ := x.NewLoad(Undo, 50).Add([]backend.Change{{Row: row}}); ok {
		t.Error("a change without the row that it superseded is accepted")
	}
	if n := x.Unknown(Undo, 50, x.epoch+1); n != 0 {
		t.Errorf("%d revisions of another epoch are unknown", n)
	}
	if x.Apply(nil, 100, 60); x.Unknown(Undo, 50, x.epoch) != 0 {
		t.Error("a compacted revision is unknown")
	}
}

// Of a batch that is larger than the log, the end is known.
func TestUndoLogOfHugeBatch(t *testing.T) {
	h := newHistory(loaded(0), 6, 50)
	h.batch(100, 1)
	before := h.rev
	h.batch(6000, 1)
	start := h.x.undo.start
	if start <= before || start >= h.rev {
		t.Fatalf("after a batch from revision %d to %d, the log begins at %d", before, h.rev, start)
	}
	h.check(t, start, 300)
	for _, rev := range []int64{before - 10, before, start - 1} {
		if _, _, ok := h.x.WalkOld(t.Context(), rev, h.x.epoch, Span{Open: true}, 1); ok {
			t.Errorf("revision %d was read", rev)
		}
	}
	h.checkCounts(t, before-10, 300)
}
