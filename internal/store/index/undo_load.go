package index

import (
	"sort"

	"github.com/sqlstore/sqlstore/backend"
)

// UndoLoad collects changes from before the undo log, which the database has, for [Index.Prepend].
type UndoLoad struct {
	from Position
	// After and Until are the revisions between which changes are wanted, Until included.
	After, Until int64

	log  undoLog
	free int64 // bytes
}

// Unknown returns how many revisions lie between a revision of an epoch and those that the index knows: 0 if it knows
// the revision, if it is not complete, or if the revision is compacted.
func (x *Index) Unknown(rev, epoch int64) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.complete || epoch != x.epoch || rev < x.compacted {
		return 0
	}
	return max(0, x.undo.start-rev)
}

// NewUndoLoad begins to load the changes after rev. It returns nil if the index has them or is not complete.
func (x *Index) NewUndoLoad(rev int64) *UndoLoad {
	x.mu.RLock()
	defer x.mu.RUnlock()
	l := &UndoLoad{
		from:  Position{Clock: x.clock(), Generation: x.generation},
		After: rev, Until: x.undo.start, log: newUndoLog(rev, x.cache.max), free: x.undo.free(),
	}
	if !x.complete || l.After >= l.Until {
		return nil
	}
	return l
}

// free returns how many bytes of rows the log can take without dropping any.
func (l *undoLog) free() int64 {
	rows, most := l.rows()
	return most - l.max/undoBlocks - rows
}

// Epoch returns the epoch of which the changes must be.
func (l *UndoLoad) Epoch() int64 { return l.from.Epoch }

// Fits reports whether the log has space for the changes so far, and for one of each revision.
func (l *UndoLoad) Fits() bool { return max(l.log.bytes, (l.Until-l.After)*undoBytes) <= l.free }

// Add adds the next changes, whole revisions in the order in which they were written. It returns false if a superseded
// row is missing, and whether these changes alone are too many for the log.
func (l *UndoLoad) Add(changes []backend.Change) (ok, excessive bool) {
	before := l.log.bytes
	for i := range changes {
		c := &changes[i]
		var old *Item
		switch {
		case i > 0 && c.Row.ID() == changes[i-1].Row.ID():
			return false, false // more than one row may be what it superseded
		case c.Row.PrevRevision == 0:
		case c.Prev == nil:
			return false, false
		default:
			old = NewBareItem(*c.Prev)
			old.Key = c.Row.Key
		}
		l.log.add(&c.Row, old)
	}
	return true, l.log.bytes-before > l.free
}

// Prepend adds to the undo log what l has collected. It does not if the log begins elsewhere by now, or has not the
// space.
func (x *Index) Prepend(l *UndoLoad) {
	if x.prepend(l) {
		x.trimUndo() // values give way to the rows
	}
}

func (x *Index) prepend(l *UndoLoad) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	u := &x.undo
	if x.generation != l.from.Generation || u.start != l.Until || l.After < x.compacted || l.log.bytes > u.free() {
		return false
	}
	u.prepend(&l.log)
	return true
}

// setValue gives a row of the log its value if there is space for it.
func (l *undoLog) setValue(it *Item) {
	value := int64(len(it.Value))
	if value > undoLargest || value > l.mostValues()-l.values {
		return
	}
	u := l.superseding(it)
	if u == nil || u.old == nil || u.old.ID() != it.ID() || u.old.cached {
		return
	}
	it.Key, it.slot = u.old.Key, -1
	u.old = it
	l.valued(u, value)
}

// superseding returns the change of a full block that superseded a row, as far as reads have prepared what has it.
func (l *undoLog) superseding(it *Item) *undo {
	key := KeyString(it.Key)
	part, runs := l.since(it.ModRevision)
	if part != nil && part.prepared.Load() && part.find(key) != nil {
		changes := part.after(it.ModRevision)
		for i := range changes {
			if changes[i].key == key {
				return &changes[i]
			}
		}
	}
	for _, r := range runs {
		if !r.prepared.Load() {
			continue
		}
		if u := r.find(key); u != nil {
			return u
		}
	}
	return nil
}

// valued counts the value that a change of a full block has been given.
func (l *undoLog) valued(u *undo, value int64) {
	block := l.newer(u.rev - 1)
	b := l.blocks[block]
	l.grow(b, value)
	at := sort.Search(len(b.undos), func(i int) bool { return b.undos[i].rev >= u.rev })
	for &b.undos[at] != u {
		at++
	}
	b.bare = min(b.bare, at)
	l.bare = min(l.bare, block)
}
