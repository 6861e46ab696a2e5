package index

import (
	"sort"

	"github.com/sqlstore/sqlstore/backend"
)

// Load collects changes from before a log, which the database has, for [Index.Prepend].
type Load struct {
	kind Log
	from Position
	// After and Until are the revisions between which changes are wanted, Until included.
	After, Until int64

	log  undoLog
	free int64 // bytes
}

// Unknown returns how many revisions lie between a revision of an epoch and those that a log reaches back to: 0 if it
// reaches back to the revision, if the index is not complete, or if the revision is compacted.
func (x *Index) Unknown(log Log, rev, epoch int64) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.complete || epoch != x.epoch || rev < x.compacted {
		return 0
	}
	return max(0, x.log(log).start-rev)
}

// NewLoad begins to load the changes after rev. It returns nil if the log has them or the index is not complete.
func (x *Index) NewLoad(log Log, rev int64) *Load {
	x.mu.RLock()
	defer x.mu.RUnlock()
	of := x.log(log)
	l := &Load{
		kind: log, from: Position{Clock: x.clock(), Generation: x.generation},
		After: rev, Until: of.start, log: newUndoLog(rev, of.max), free: of.free(),
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
func (l *Load) Epoch() int64 { return l.from.Epoch }

// WithPrev reports whether the load needs the superseded rows.
func (l *Load) WithPrev() bool { return l.kind == Undo }

// Fits reports whether the log has space for the changes so far, and for the fewest that may be to come.
func (l *Load) Fits() bool {
	least := l.log.bytes
	if l.kind == Undo { // each revision has a change
		least = max(least, (l.Until-l.After)*undoBytes)
	}
	return least <= l.free
}

// Add adds the next changes, whole revisions in the order in which they were written. It returns false if a superseded
// row is missing, and whether these changes alone are too many for the log.
func (l *Load) Add(changes []backend.Change) (ok, excessive bool) {
	before := l.log.bytes
	for i := range changes {
		c := &changes[i]
		if l.kind == Growth {
			l.log.grows(&c.Row, c.Row.PrevRevision != 0)
			continue
		}
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

// Prepend adds to the log what l has collected. It does not, and returns false, if the log begins elsewhere by now, or
// lacks the space.
func (x *Index) Prepend(l *Load) bool {
	if !x.prepend(l) {
		return false
	}
	x.trimChanges() // values give way to the rows
	return true
}

func (x *Index) prepend(l *Load) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	u := x.log(l.kind)
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
