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
	// undoMin and undoMax bound the memory of the undo log in bytes. In between, it is a quarter of the value cache.
	// Values take up to half of it.
	undoMin = 1 << 20
	undoMax = 8 << 20
	// undoBlockRows is how many changes make a block full, and undoBlocks how many blocks the log has at most if they
	// are full earlier because the rows are large. Reads search full blocks by key. They scan the one being filled and
	// the one in which their revision is.
	undoBlockRows = 512
	undoBlocks    = 16
	// undoBytes is the memory of a change in bytes, besides its key and the row that it superseded.
	undoBytes = 56
)

// undoLog holds the latest changes and the rows that they superseded. With these put back, the current rows are those
// of an older revision.
type undoLog struct {
	start  int64        // the changes above it are in the log
	blocks []*undoBlock // full, oldest first
	tail   *undoBlock
	bytes  int64 // of the full blocks, values included
	values int64 // of the full blocks
	max    int64
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

	// Only full blocks have these fields, once they are prepared.
	once     sync.Once
	prepared atomic.Bool
	first    []int   // the first change of each key, in key order
	growth   []int64 // what the block adds to the keys before that of first[i]; one longer than first, with the total
}

func newUndoLog(start, cacheBytes int64) undoLog {
	return undoLog{start: start, tail: &undoBlock{}, max: min(max(cacheBytes/4, undoMin), undoMax)}
}

// add records that r superseded old, nil for none.
func (b *undoBlock) add(r *backend.Row, old *Item) {
	u := undo{key: KeyString(r.Key), old: old, rev: r.ModRevision}
	switch {
	case old == nil && r.Deleted:
		return
	case old == nil:
		u.growth = 1
	case r.Deleted:
		u.growth = -1
	}
	if b.undos == nil {
		b.undos = make([]undo, 0, undoBlockRows)
	}
	b.undos = append(b.undos, u)
	b.bytes += undoBytes + int64(len(u.key))
	if old != nil {
		b.bytes += ItemBytes
		b.grow(int64(len(old.Value)))
	}
}

// grow counts the bytes of values.
func (b *undoBlock) grow(values int64) {
	b.values += values
	b.bytes += values
}

// strip drops the values.
func (b *undoBlock) strip() {
	for i := range b.undos {
		if u := &b.undos[i]; u.old != nil && u.old.cached {
			u.old = NewBareItem(u.old.Row)
		}
	}
	b.grow(-b.values)
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

// commit ends a batch, whose changes are in the tail.
func (l *undoLog) commit(compacted int64) {
	if len(l.tail.undos) >= undoBlockRows || l.tail.bytes >= l.max/undoBlocks {
		l.seal()
	}
	l.trim(compacted)
}

// append adds a batch of its own.
func (l *undoLog) append(batch *undoBlock, compacted int64) {
	l.seal()
	l.tail = batch
	l.seal()
	l.trim(compacted)
}

// seal makes the tail a full block.
func (l *undoLog) seal() {
	if len(l.tail.undos) > 0 {
		l.blocks = append(l.blocks, l.tail)
		l.bytes += l.tail.bytes
		l.values += l.tail.values
		l.tail = &undoBlock{}
	}
}

// trim drops the oldest values and blocks if the log is too large, and the blocks whose revisions are compacted.
func (l *undoLog) trim(compacted int64) {
	for i := 0; l.values > l.max/2; i++ {
		if b := l.blocks[i]; b.values > 0 {
			l.values -= b.values
			l.bytes -= b.values
			b.strip()
		}
	}
	for len(l.blocks) > 0 && (l.bytes > l.max || l.blocks[0].last() <= compacted) {
		b := l.blocks[0]
		l.start = b.last()
		l.bytes -= b.bytes
		l.values -= b.values
		l.blocks[0] = nil
		l.blocks = l.blocks[1:]
	}
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
	var found []undo
	scan := func(b *undoBlock) {
		for _, u := range b.after(rev) {
			if sp.Contains(u.key) {
				found = append(found, u)
			}
		}
	}
	blocks := l.newer(rev)
	most := max(oldPart/max(1, len(blocks)), 16)
	for _, b := range blocks {
		if b.undos[0].rev <= rev {
			scan(b)
			continue
		}
		b.prepare()
		from, to := b.within(sp)
		if to-from > most {
			to = from + most
			sp.End, sp.Open = b.key(to), false
		}
		for _, i := range b.first[from:to] {
			found = append(found, b.undos[i])
		}
	}
	scan(l.tail)
	// The first change of a key after rev decides. A stable sort leaves it before the others.
	slices.SortStableFunc(found, func(a, b undo) int { return strings.Compare(a.key, b.key) })
	found = slices.CompactFunc(found, func(a, b undo) bool { return a.key == b.key })
	end := len(found)
	for end > 0 && !sp.Contains(found[end-1].key) {
		end--
	}
	return found[:end], sp
}
