package index

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// undoFan is how many runs form the next larger one.
	undoFan = 8
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

// blocksOf returns how many blocks a run of a level has.
func blocksOf(level int) int {
	blocks := 1
	for range level {
		blocks *= undoFan
	}
	return blocks
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
