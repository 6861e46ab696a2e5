package index

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// undoMin and undoMax bound the memory of the undo log in bytes. In between, it is an eighth of the value cache.
	undoMin = 1 << 20
	undoMax = 16 << 20
	// undoValues is the part of it for values.
	undoValues = 4
	// undoBlockRows is how many changes make a block full. Reads search full blocks by key. They scan the one being
	// filled and the one in which their revision is.
	undoBlockRows = 512
	// undoBlocks is the part of the log, without values, that makes a block full if it has fewer, large rows.
	undoBlocks = 16
	// undoBytes is the memory of a change in bytes, besides its key and the row that it superseded.
	undoBytes = 56
	// undoFound is about how many changes a part of a read finds at most.
	undoFound = 2048
)

// undoLog holds the latest changes and the rows that they superseded. With these put back, the current rows are those
// of an older revision.
type undoLog struct {
	start  int64        // the changes above it are in the log
	blocks []*undoBlock // full, oldest first
	tail   *undoBlock
	bytes  int64 // values included
	values int64
	max    int64
	bare   int // that many blocks at the beginning have no values
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
	undos  []undo // in the order of the changes
	bytes  int64  // values included
	values int64
	bare   int // that many changes at the beginning have no values

	// Only full blocks have these fields, once they are prepared.
	once     sync.Once
	prepared atomic.Bool
	first    []int   // the first change of each key, in key order
	growth   []int64 // what the block adds to the keys before that of first[i]; one longer than first, with the total
}

func newUndoLog(start, cacheBytes int64) undoLog {
	return undoLog{start: start, tail: &undoBlock{}, max: min(max(cacheBytes/8, undoMin), undoMax)}
}

// add records that r superseded old, nil for none.
func (l *undoLog) add(r *backend.Row, old *Item) {
	u := undo{key: KeyString(r.Key), old: old, rev: r.ModRevision}
	switch {
	case old == nil && r.Deleted:
		return
	case old == nil:
		u.growth = 1
	case r.Deleted:
		u.growth = -1
	}
	if l.full() && l.tail.last() < u.rev {
		l.seal()
	}
	if l.tail.undos == nil {
		l.tail.undos = make([]undo, 0, undoBlockRows)
	}
	l.tail.undos = append(l.tail.undos, u)
	bytes := undoBytes + int64(len(u.key))
	if old != nil {
		bytes += ItemBytes
		l.grow(l.tail, int64(len(old.Value)))
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
	l.tail = &undoBlock{}
}

// commit ends a batch.
func (l *undoLog) commit(compacted int64) {
	if l.full() {
		l.seal()
	}
	l.trim(compacted)
}

// append adds the log of a batch, which began at revision rev, where l ends.
func (l *undoLog) append(batch *undoLog, rev, compacted int64) {
	batch.seal()
	if batch.start > rev { // it has lost its beginning, and all before with it
		*l = *batch
	} else {
		l.seal()
		l.blocks = append(l.blocks, batch.blocks...)
		l.bytes += batch.bytes
		l.values += batch.values
	}
	l.trim(compacted)
}

// prepend adds a log without values that ends where l starts.
func (l *undoLog) prepend(older *undoLog) {
	older.seal()
	l.blocks = append(older.blocks, l.blocks...)
	l.bytes += older.bytes
	l.start = older.start
	l.bare += len(older.blocks)
}

// trim drops the oldest values and blocks if the log is too large, and the blocks whose revisions are compacted.
func (l *undoLog) trim(compacted int64) {
	for len(l.blocks) > 0 && (l.bytes-l.values > l.max || l.blocks[0].last() <= compacted) {
		l.drop()
	}
	for l.values > l.max/undoValues {
		l.strip()
	}
	for len(l.blocks) > 0 && l.bytes > l.max {
		l.drop()
	}
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

// last returns the revision that the block ends with.
func (b *undoBlock) last() int64 { return b.undos[len(b.undos)-1].rev }

// after returns the changes above rev.
func (b *undoBlock) after(rev int64) []undo {
	return b.undos[sort.Search(len(b.undos), func(i int) bool { return b.undos[i].rev > rev }):]
}

// prepare makes a full block searchable by key. It needs no lock.
func (b *undoBlock) prepare() {
	b.once.Do(func() {
		order := make([]int, len(b.undos))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int {
			return cmp.Or(strings.Compare(b.undos[i].key, b.undos[j].key), cmp.Compare(i, j))
		})
		b.growth = append(make([]int64, 0, len(order)+1), 0)
		for _, i := range order {
			if n := len(b.first); n == 0 || b.key(n-1) != b.undos[i].key {
				b.first = append(b.first, i)
				b.growth = append(b.growth, b.growth[n])
			}
			b.growth[len(b.growth)-1] += b.undos[i].growth
		}
		b.prepared.Store(true)
	})
}

func (b *undoBlock) key(i int) string { return b.undos[b.first[i]].key }

// within returns which keys of a prepared block are in the span: those of first[from:to].
func (b *undoBlock) within(sp Span) (from, to int) {
	search := func(key string) int { return sort.Search(len(b.first), func(i int) bool { return b.key(i) >= key }) }
	if sp.Open {
		return search(sp.Start), len(b.first)
	}
	return search(sp.Start), search(sp.End)
}

// newer returns the blocks that have changes above rev. Only the first may have others, too.
func (l *undoLog) newer(rev int64) []*undoBlock {
	return l.blocks[sort.Search(len(l.blocks), func(i int) bool { return l.blocks[i].last() > rev }):]
}

// unprepared returns the blocks that a read at rev would have to prepare.
func (l *undoLog) unprepared(rev int64) (blocks []*undoBlock) {
	for _, b := range l.newer(rev) {
		if !b.prepared.Load() {
			blocks = append(blocks, b)
		}
	}
	return blocks
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
	for _, b := range l.newer(rev) {
		if b.undos[0].rev <= rev {
			scan(b)
			continue
		}
		b.prepare()
		from, to := b.within(sp)
		growth += b.growth[to] - b.growth[from]
	}
	scan(l.tail)
	return growth
}

// find returns what keys of the span were at rev if they have changed since, in key order. It ends the span early if
// there are many.
func (l *undoLog) find(sp Span, rev int64) ([]undo, Span) {
	blocks := l.newer(rev)
	whole := blocks
	if len(whole) > 0 && whole[0].undos[0].rev <= rev {
		whole = whole[1:]
	}
	sp = narrow(whole, sp)
	var found []undo
	scan := func(b *undoBlock) {
		for _, u := range b.after(rev) {
			if sp.Contains(u.key) {
				found = append(found, u)
			}
		}
	}
	if len(whole) < len(blocks) {
		scan(blocks[0])
	}
	for _, b := range whole {
		from, to := b.within(sp)
		for _, i := range b.first[from:to] {
			found = append(found, b.undos[i])
		}
	}
	scan(l.tail)
	// The first change of a key after rev decides. A stable sort leaves it before the others.
	slices.SortStableFunc(found, func(a, b undo) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(found, func(a, b undo) bool { return a.key == b.key }), sp
}

// narrow ends the span early if the blocks have many changes there.
func narrow(blocks []*undoBlock, sp Span) Span {
	total := 0
	for _, b := range blocks {
		b.prepare()
		from, to := b.within(sp)
		total += to - from
	}
	if total <= undoFound {
		return sp
	}
	most := max(undoFound/len(blocks), 16)
	for _, b := range blocks {
		if from, to := b.within(sp); to-from > most {
			sp.End, sp.Open = b.key(from+most), false
		}
	}
	return sp
}
