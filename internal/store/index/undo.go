package index

import (
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// undoMin is the least that a log may have, in bytes.
	undoMin = 1 << 20
	// undoValues is the part of it that values may have, even if the value cache is full. They give way to rows, which
	// reach further back, except for the part undoLeastValues.
	undoValues      = 2
	undoLeastValues = 8
	// undoLargest is the largest value that it has, in bytes. Larger ones take much memory, and a read of them spends
	// little of its time on the statement.
	undoLargest = 64 << 10
	// undoBlockRows is how many changes make a block full. Reads search full blocks by key. They scan the one being
	// filled and the one in which their revision is.
	undoBlockRows = 512
	// undoBlocks is the part of the log, without values, that makes a block full if it has fewer, large rows.
	undoBlocks = 16
	// undoBytes is the memory of a change in bytes, besides its key and the row that it superseded, in the log and in
	// runs of five levels.
	undoBytes = 40 + 5*16
)

// undoLog holds the latest changes and the rows that they superseded. With these put back, the current rows are those
// of an older revision.
type undoLog struct {
	start  int64        // the changes above it are in the log
	blocks []*undoBlock // full, oldest first
	number int          // of the first block, if there is one: blocks are numbered in order
	tail   *undoBlock
	bytes  int64 // values included
	values int64
	max    int64
	spare  int64 // bytes that the value cache has free
	bare   int   // that many blocks at the beginning have no values
}

// undo is what a key was before a change.
type undo struct {
	key    string
	old    *Item // nil if the key did not exist
	rev    int64 // of the change
	growth int64 // the number of keys that the change added
}

// undoBlock is a part of the log. It ends with the end of a revision.
type undoBlock struct {
	undoRun
	bytes  int64 // values included
	values int64
	bare   int // that many changes at the beginning have no values
	// larger has the runs of undoFan blocks, of undoFan², and so on that begin with this one.
	larger []*undoRun
}

// newUndoLog returns a log of the changes above start, of up to so many bytes, but at least undoMin, not counting
// values that use what the value cache has free.
func newUndoLog(start, bytes int64) undoLog {
	return undoLog{start: start, tail: &undoBlock{}, max: max(bytes, undoMin)}
}

// add records that r superseded old, nil for none.
func (l *undoLog) add(r *backend.Row, old *Item) {
	if old != nil && len(old.Value) > undoLargest {
		old = NewBareItem(old.Row)
	}
	if growth := growthBy(r, old != nil); growth != 0 || old != nil {
		l.push(undo{key: KeyString(r.Key), old: old, rev: r.ModRevision, growth: growth})
	}
}

// grows is add without the row, for a change that adds or removes a key. existed tells whether r superseded a row.
func (l *undoLog) grows(r *backend.Row, existed bool) {
	if growth := growthBy(r, existed); growth != 0 {
		l.push(undo{key: KeyString(r.Key), rev: r.ModRevision, growth: growth})
	}
}

// growthBy returns the number of keys that r adds.
func growthBy(r *backend.Row, existed bool) int64 {
	switch {
	case existed && r.Deleted:
		return -1
	case !existed && !r.Deleted:
		return 1
	}
	return 0
}

func (l *undoLog) push(u undo) {
	if l.full() && l.tail.last() < u.rev {
		l.seal()
	}
	if l.tail.undos == nil {
		l.tail.undos = make([]undo, 0, undoBlockRows)
	}
	l.tail.undos = append(l.tail.undos, u)
	bytes := undoBytes + int64(len(u.key))
	if u.old != nil {
		bytes += ItemBytes
		l.grow(l.tail, int64(len(u.old.Value)))
	}
	l.tail.bytes += bytes
	l.bytes += bytes
}

// grow counts the bytes of values of a block.
func (l *undoLog) grow(b *undoBlock, values int64) {
	b.values += values
	b.bytes += values
	l.values += values
	l.bytes += values
}

// full reports whether the tail is full.
func (l *undoLog) full() bool {
	return len(l.tail.undos) >= undoBlockRows || l.tail.bytes-l.tail.values >= l.max/undoBlocks && len(l.tail.undos) > 0
}

// seal makes the tail a full block.
func (l *undoLog) seal() {
	if len(l.tail.undos) == 0 {
		return
	}
	if cap(l.tail.undos) > 2*len(l.tail.undos) {
		l.tail.undos = slices.Clone(l.tail.undos)
	}
	l.blocks = append(l.blocks, l.tail)
	l.join(len(l.blocks) - 1)
	l.tail = &undoBlock{}
}

// commit ends a batch.
func (l *undoLog) commit(compacted int64) {
	if l.full() {
		l.seal()
	}
	l.trim(compacted, 2*applyAtOnce) // more than a batch adds; see also [Index.trimChanges]
}

// append adds the log of a batch, which began at revision rev, where l ends. The caller must trim l.
func (l *undoLog) append(batch *undoLog, rev int64) {
	batch.seal()
	if batch.start > rev { // it has lost its beginning, and all before with it
		*l = *batch
	} else {
		l.seal()
		l.blocks = append(l.blocks, batch.blocks...)
		l.rejoin(len(l.blocks)-len(batch.blocks), len(l.blocks))
		l.bytes += batch.bytes
		l.values += batch.values
	}
}

// prepend adds a log without values that ends where l starts.
func (l *undoLog) prepend(older *undoLog) {
	older.seal()
	l.blocks = append(older.blocks, l.blocks...)
	l.number -= len(older.blocks)
	l.rejoin(0, len(older.blocks))
	l.bytes += older.bytes
	l.start = older.start
	l.bare += len(older.blocks)
}

// rows returns the bytes of the log without values, and how many it may have.
func (l *undoLog) rows() (bytes, most int64) {
	return l.bytes - l.values, l.max - l.max/undoLeastValues
}

// mostValues returns how many bytes of values the log may have: those that fit beside the rows, or those that fit into
// the value cache beside the current values.
func (l *undoLog) mostValues() int64 {
	rows, _ := l.rows()
	return max(min(l.max/undoValues, l.max-rows), min(l.max, l.spare), 0)
}

// trim drops the oldest blocks and values if the log is too large, and the blocks whose revisions are compacted. It
// drops up to a number of values, and reports whether there are more to drop.
func (l *undoLog) trim(compacted int64, values int) (more bool) {
	for len(l.blocks) > 0 {
		if rows, most := l.rows(); rows <= most && l.blocks[0].last() > compacted {
			break
		}
		l.drop()
	}
	for ; l.values > l.mostValues(); values-- {
		if values == 0 {
			return true
		}
		l.strip()
	}
	return false
}

// drop drops the oldest block.
func (l *undoLog) drop() {
	b := l.blocks[0]
	l.start = b.last()
	l.bytes -= b.bytes
	l.values -= b.values
	l.bare = max(0, l.bare-1)
	l.blocks[0] = nil
	l.blocks = l.blocks[1:]
	l.number++
}

// strip drops the oldest value. There must be one.
func (l *undoLog) strip() {
	b := l.tail
	for ; l.bare < len(l.blocks); l.bare++ {
		if l.blocks[l.bare].values > 0 {
			b = l.blocks[l.bare]
			break
		}
	}
	for {
		u := &b.undos[b.bare]
		b.bare++
		if u.old != nil && len(u.old.Value) > 0 {
			l.grow(b, -int64(len(u.old.Value)))
			u.old = NewBareItem(u.old.Row)
			return
		}
	}
}
