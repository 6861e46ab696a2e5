package index

import "context"

// oldPart bounds the current rows that a read at an older revision walks under the index's lock at a time.
const oldPart = 1024

// WalkOld returns up to limit rows of the span at an older revision of an epoch, in key order. more is true if there
// are further ones. ok is false if the index does not know the revision, or ctx has ended.
func (x *Index) WalkOld(
	ctx context.Context, rev, epoch int64, sp Span, limit int,
) (items []*Item, more, ok bool) {
	part := min(limit, oldPart-1) + 1
	for rest := true; rest; part = min(4*part, oldPart) { // most of the current rows may be newer than rev
		if !x.prepare(Undo, rev, epoch) {
			return nil, false, false
		}
		if items, sp, rest, ok = x.walkOld(rev, epoch, sp, part, items); !ok || rest && ctx.Err() != nil {
			return nil, false, false
		}
		if len(items) > limit {
			return items[:limit], true, true
		}
	}
	return items, false, true
}

// walkOld appends the rows of the span to items as far as a number of current rows reach, and returns the rest of the
// span.
func (x *Index) walkOld(
	rev, epoch int64, sp Span, walk int, items []*Item,
) (_ []*Item, after Span, rest, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.remembers(Undo, rev, epoch) {
		return nil, sp, false, false
	}
	part := sp
	rows, more := x.tree.Walk(part, walk)
	if more {
		part.End, part.Open = string(rows[len(rows)-1].Key)+"\x00", false
	}
	undos, part, all := x.undo.find(part, rev, x.tree.Count)
	if items == nil {
		items = make([]*Item, 0, len(rows)+len(undos))
	}
	if all {
		rows = nil
	}
	for _, it := range rows {
		key := KeyString(it.Key)
		if !part.Contains(key) {
			break
		}
		for len(undos) > 0 && undos[0].key < key {
			items, undos = undos[0].appendOld(items), undos[1:]
		}
		if len(undos) > 0 && undos[0].key == key {
			items, undos = undos[0].appendOld(items), undos[1:]
			continue
		}
		if it.ModRevision > rev {
			return nil, sp, false, false // never show what was written later
		}
		items = append(items, it)
	}
	for i := range undos {
		items = undos[i].appendOld(items)
	}
	if part.Open || part.End == sp.End && !sp.Open {
		return items, sp, false, true
	}
	return items, sp.From(part.End), true, true
}

func (u *undo) appendOld(items []*Item) []*Item {
	if u.old == nil {
		return items
	}
	return append(items, u.old)
}

// CountOld returns the number of keys of the span at an older revision of an epoch. ok is false if the index does not
// know it.
func (x *Index) CountOld(rev, epoch int64, sp Span) (n int64, ok bool) {
	for _, log := range []Log{Growth, Undo} { // where few writes update keys, Undo may reach further back
		if x.prepare(log, rev, epoch) {
			if n, ok = x.countOld(log, rev, epoch, sp); ok {
				break
			}
		}
	}
	return n, ok
}

func (x *Index) countOld(log Log, rev, epoch int64, sp Span) (n int64, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.remembers(log, rev, epoch) {
		return 0, false
	}
	return x.tree.Count(sp) - x.log(log).count(sp, rev), true
}

// CanCount reports whether the index knows how many keys there were at a revision of an epoch.
func (x *Index) CanCount(rev, epoch int64) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.remembers(Growth, rev, epoch) || x.remembers(Undo, rev, epoch)
}

// remembers reports whether a log has all changes above a revision of an epoch. Callers hold mu.
func (x *Index) remembers(log Log, rev, epoch int64) bool {
	return x.complete && epoch == x.epoch && rev >= x.log(log).start && rev <= x.rev
}

// prepare makes what a read at rev searches in a log searchable by key, and reports whether the log reaches back to
// rev. Others need not wait for that.
func (x *Index) prepare(log Log, rev, epoch int64) bool {
	x.mu.RLock()
	ok := x.remembers(log, rev, epoch)
	var todo []*undoRun
	if ok {
		todo = x.log(log).unprepared(rev)
	}
	x.mu.RUnlock()
	prepareAll(todo)
	return ok
}
