package index

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// undoFan is how many runs form the next larger one.
	undoFan = 8
	// undoFound is about how many changes a part of a read finds at most.
	undoFound = 4096
	// undoMerge is about how many changes a read merges into larger runs. Later reads merge the others.
	undoMerge = 1 << 18
)

// undoRun is a full block, or undoFan smaller runs in a row. Once it is prepared, reads search it by key. Large runs
// have each key once: what a read has to search grows with the keys that have changed, not with the changes.
type undoRun struct {
	undos []undo     // of a block, in the order of the changes
	parts []*undoRun // of a larger run, oldest first

	preparing atomic.Bool
	prepared  atomic.Bool
	sorting   sync.Mutex // of a block
	first     []keyUndo  // the first change of each key, in key order
}

// keyUndo is the first change of a key in a run.
type keyUndo struct {
	*undo
	total int64 // by how many keys the run's changes of this key and those before it add
}

// join makes the larger runs that end with a block.
func (l *undoLog) join(last int) {
	end, blocks := last+1, undoFan
	for level := 0; (l.number+end)%blocks == 0 && end >= blocks; level++ {
		first := end - blocks
		if b := l.blocks[first]; len(b.larger) == level {
			parts := make([]*undoRun, undoFan)
			for i := range parts {
				parts[i] = l.run(first+i*blocks/undoFan, level)
			}
			b.larger = append(b.larger, &undoRun{parts: parts})
		}
		blocks *= undoFan
	}
}

// rejoin makes the larger runs of blocks[from:to], which come from another log, and of the blocks after them.
func (l *undoLog) rejoin(from, to int) {
	for _, b := range l.blocks[from:to] {
		b.larger = nil
	}
	for block := from; block < len(l.blocks); block++ {
		l.join(block)
	}
}

// run returns the run of a level that begins with a block.
func (l *undoLog) run(block, level int) *undoRun {
	if level == 0 {
		return &l.blocks[block].undoRun
	}
	return l.blocks[block].larger[level-1]
}

// last returns the revision that the block ends with.
func (b *undoBlock) last() int64 { return b.undos[len(b.undos)-1].rev }

// after returns the changes above rev.
func (b *undoBlock) after(rev int64) []undo {
	return b.undos[sort.Search(len(b.undos), func(i int) bool { return b.undos[i].rev > rev }):]
}

// since returns the changes of full blocks above rev: those of part, if it is not nil, and of the runs that follow, the
// largest that are prepared. Only blocks may not be.
func (l *undoLog) since(rev int64) (part *undoBlock, runs []*undoRun) {
	i := l.newer(rev)
	if i < len(l.blocks) && l.blocks[i].undos[0].rev <= rev {
		part, i = l.blocks[i], i+1
	}
	for i < len(l.blocks) {
		level := len(l.blocks[i].larger)
		for level > 0 && !l.run(i, level).prepared.Load() {
			level--
		}
		runs = append(runs, l.run(i, level))
		i += blocksOf(level)
	}
	return part, runs
}

// blocksOf returns how many blocks a run of a level has.
func blocksOf(level int) int {
	blocks := 1
	for range level {
		blocks *= undoFan
	}
	return blocks
}

// newer returns the first full block that has changes above rev. Only that one may have others, too.
func (l *undoLog) newer(rev int64) int {
	return sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].last() > rev })
}

// unprepared returns the runs that reads at rev would have prepared, small ones before those that consist of them.
func (l *undoLog) unprepared(rev int64) (todo []*undoRun) {
	i := l.newer(rev)
	if i < len(l.blocks) && l.blocks[i].undos[0].rev <= rev { // reads scan it, but setValue searches it
		todo = l.appendUnprepared(todo, i, 0)
		i++
	}
	for i < len(l.blocks) {
		level := len(l.blocks[i].larger)
		todo = l.appendUnprepared(todo, i, level)
		i += blocksOf(level)
	}
	return todo
}

func (l *undoLog) appendUnprepared(todo []*undoRun, block, level int) []*undoRun {
	r := l.run(block, level)
	if r.prepared.Load() {
		return todo
	}
	if level > 0 {
		for i := range undoFan {
			todo = l.appendUnprepared(todo, block+i*blocksOf(level-1), level-1)
		}
	}
	return append(todo, r)
}

// prepareAll prepares runs, as far as others do not and merging them takes not too long. It needs no lock.
func prepareAll(runs []*undoRun) {
	merged := 0
	for _, r := range runs {
		if r.undos != nil {
			r.prepare()
		} else if merged < undoMerge {
			merged += r.merge()
		}
	}
}

// prepare makes a block searchable by key.
func (r *undoRun) prepare() {
	if r.prepared.Load() {
		return
	}
	r.sorting.Lock()
	defer r.sorting.Unlock()
	if !r.prepared.Load() {
		r.first = sorted(r.undos)
		r.prepared.Store(true)
	}
}

// merge makes a larger run searchable by key, if its parts are and no other read does. It returns how many changes it
// has merged.
func (r *undoRun) merge() (changes int) {
	lists := make([][]keyUndo, len(r.parts))
	for i, p := range r.parts {
		if !p.prepared.Load() {
			return 0
		}
		lists[i] = p.first
		changes += len(p.first)
	}
	if !r.preparing.CompareAndSwap(false, true) {
		return 0
	}
	r.first = slices.Clone(merge(lists))
	r.prepared.Store(true)
	return changes
}

// sorted returns the first change of each key, in key order.
func sorted(undos []undo) []keyUndo {
	all := make([]keyUndo, len(undos))
	for i := range undos {
		all[i] = keyUndo{&undos[i], undos[i].growth}
	}
	slices.SortStableFunc(all, func(a, b keyUndo) int { return strings.Compare(a.key, b.key) })
	first, total := all[:0], int64(0)
	for _, u := range all {
		total += u.total
		if n := len(first); n > 0 && first[n-1].key == u.key {
			first[n-1].total = total
			continue
		}
		first = append(first, keyUndo{u.undo, total})
	}
	return first
}

// merge returns the first change of each key of lists in key order, the older lists first.
func merge(lists [][]keyUndo) []keyUndo {
	for len(lists) > 1 {
		half := make([][]keyUndo, 0, (len(lists)+1)/2)
		for ; len(lists) > 1; lists = lists[2:] {
			half = append(half, mergeTwo(lists[0], lists[1]))
		}
		lists = append(half, lists...)
	}
	if len(lists) == 0 {
		return nil
	}
	return lists[0]
}

func mergeTwo(older, newer []keyUndo) []keyUndo {
	switch {
	case len(older) == 0:
		return newer
	case len(newer) == 0:
		return older
	}
	out := make([]keyUndo, 0, len(older)+len(newer))
	var before, after int64
	for len(older) > 0 && len(newer) > 0 {
		u, c := older[0], strings.Compare(older[0].key, newer[0].key)
		if c > 0 {
			u = newer[0]
		}
		if c <= 0 {
			before, older = older[0].total, older[1:]
		}
		if c >= 0 {
			after, newer = newer[0].total, newer[1:]
		}
		out = append(out, keyUndo{u.undo, before + after})
	}
	for _, u := range older {
		out = append(out, keyUndo{u.undo, u.total + after})
	}
	for _, u := range newer {
		out = append(out, keyUndo{u.undo, before + u.total})
	}
	return out
}

// within returns the changes of the span in a prepared run, and those of the keys before it.
func (r *undoRun) within(sp Span) (before, in []keyUndo) {
	from, to := r.search(sp.Start), len(r.first)
	if !sp.Open {
		to = max(from, r.search(sp.End))
	}
	return r.first[:from], r.first[from:to]
}

// search returns the position of the first key that is not below key.
func (r *undoRun) search(key string) int {
	return sort.Search(len(r.first), func(i int) bool { return r.first[i].key >= key })
}

// find returns the first change of a key in a prepared run, nil if there is none.
func (r *undoRun) find(key string) *undo {
	if i := r.search(key); i < len(r.first) && r.first[i].key == key {
		return r.first[i].undo
	}
	return nil
}

// count returns by how many keys the span has grown since rev.
func (l *undoLog) count(sp Span, rev int64) (growth int64) {
	scan := func(b *undoBlock) {
		for _, u := range b.after(rev) {
			if u.growth != 0 && sp.Contains(u.key) {
				growth += u.growth
			}
		}
	}
	part, runs := l.since(rev)
	if part != nil {
		scan(part)
	}
	for _, r := range runs {
		r.prepare()
		before, in := r.within(sp)
		if len(in) > 0 {
			growth += in[len(in)-1].total
			if len(before) > 0 {
				growth -= before[len(before)-1].total
			}
		}
	}
	scan(l.tail)
	return growth
}

// find returns what keys of the span were at rev if they have changed since, in key order. It ends the span early if
// there are many.
func (l *undoLog) find(sp Span, rev int64) ([]keyUndo, Span) {
	part, runs := l.since(rev)
	sp = narrow(runs, sp)
	scan := func(b *undoBlock) []keyUndo {
		var in []undo
		for _, u := range b.after(rev) {
			if sp.Contains(u.key) {
				in = append(in, u)
			}
		}
		return sorted(in)
	}
	lists := make([][]keyUndo, 0, len(runs)+2)
	if part != nil {
		lists = append(lists, scan(part))
	}
	for _, r := range runs {
		if _, in := r.within(sp); len(in) > 0 {
			lists = append(lists, in)
		}
	}
	return merge(append(lists, scan(l.tail))), sp
}

// narrow ends the span early if the runs have many changes there.
func narrow(runs []*undoRun, sp Span) Span {
	for _, r := range runs {
		r.prepare()
	}
	for {
		total, most := 0, []keyUndo(nil)
		for _, r := range runs {
			_, in := r.within(sp)
			total += len(in)
			if len(in) > len(most) {
				most = in
			}
		}
		if total <= undoFound || len(most) < 2 {
			return sp
		}
		sp.End, sp.Open = most[max(1, len(most)*undoFound/total)].key, false
	}
}
