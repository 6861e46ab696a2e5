package index

import "sort"

const (
	// undoFound is about how many changes a part of a read finds at most.
	undoFound = 4096
	// undoRepeated is how many changes for each key make it likely that a few lists of changes have all keys, because
	// the same keys change again and again.
	undoRepeated = 3
)

// last returns the revision that the block ends with.
func (b *undoBlock) last() int64 { return b.undos[len(b.undos)-1].rev }

// after returns the changes above rev.
func (b *undoBlock) after(rev int64) []undo {
	return b.undos[sort.Search(len(b.undos), func(i int) bool { return b.undos[i].rev > rev }):]
}

// since returns the changes of full blocks above rev: those of part, if it is not nil, and of the runs that follow. All
// larger runs among them are prepared, single blocks may not be.
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

// newer returns the first full block that has changes above rev. Only that one may have others, too.
func (l *undoLog) newer(rev int64) int {
	return sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].last() > rev })
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
// there are many. all reports that keys which are not among them did not exist at rev. current counts the keys of a
// span now.
func (l *undoLog) find(sp Span, rev int64, current func(Span) int64) (found []keyUndo, _ Span, all bool) {
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
	lists = append(lists, scan(l.tail))
	total := 0
	for _, in := range lists {
		total += len(in)
	}
	now := current(sp)
	if int64(total) <= undoRepeated*(now+1) {
		return merge(lists), sp, false
	}
	existed := now - l.count(sp, rev)
	for len(lists) > 0 && !all {
		n, merged := 0, 0
		for n < len(lists) && merged <= len(found) {
			merged += len(lists[n])
			n++
		}
		found = merge(append([][]keyUndo{found}, lists[:n]...))
		lists = lists[n:]
		all = existing(found) == existed
	}
	return found, sp, all
}

// existing returns how many of the keys existed before their first change.
func existing(undos []keyUndo) (n int64) {
	for i := range undos {
		if undos[i].old != nil {
			n++
		}
	}
	return n
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
