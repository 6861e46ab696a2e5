package etcdshim

import (
	"math/bits"

	"github.com/sqlstore/sqlstore/internal/store"
)

// writer fills a buffer from its end to its start. So the length of a message is known when its prefix is written, and
// nothing is measured twice. The buffer must have exactly the right size, which the size functions compute.
type writer struct {
	b []byte
	i int // b[i:] is written

	// The values of a large reply are not copied: they stay in place, between two pieces of b.
	cut    int // values of at least this size stay in place; 0: none
	values []cutValue
	left   int // bytes of values so far
}

// cutValue belongs before b[at:].
type cutValue struct {
	at    int
	value []byte
}

// mark is the writer's position, including values that were not copied: the difference of two is a length.
func (w *writer) mark() int { return w.i - w.left }

func newWriter(b []byte) writer { return writer{b: b, i: len(b)} }

func sizeVarint(v uint64) int { return (9*bits.Len64(v) + 64) / 64 }

// sizeInt is the size of a field with a one-byte tag.
func sizeInt(v int64) int {
	if v == 0 {
		return 0
	}
	return 1 + sizeVarint(uint64(v))
}

func sizeBool(v bool) int {
	if v {
		return 2
	}
	return 0
}

// sizeBytes is the size of a field with a one-byte tag; proto3 omits empty ones.
func sizeBytes(n int) int {
	if n == 0 {
		return 0
	}
	return sizeMessage(n)
}

// sizeMessage is the size of a field that is present even if its message is empty.
func sizeMessage(n int) int { return 1 + sizeVarint(uint64(n)) + n }

func (w *writer) byte(v byte) {
	w.i--
	w.b[w.i] = v
}

func (w *writer) varint(v uint64) {
	if v < 1<<7 {
		w.byte(byte(v))
		return
	}
	n := sizeVarint(v)
	w.i -= n
	b := w.b[w.i : w.i+n]
	for j := range n - 1 {
		b[j] = byte(v) | 0x80
		v >>= 7
	}
	b[n-1] = byte(v)
}

func (w *writer) int(tag byte, v int64) {
	if v == 0 {
		return
	}
	w.varint(uint64(v))
	w.byte(tag)
}

func (w *writer) bool(tag byte, v bool) {
	if v {
		w.byte(1)
		w.byte(tag)
	}
}

func (w *writer) bytes(tag byte, v []byte) {
	if len(v) == 0 {
		return
	}
	w.i -= len(v)
	copy(w.b[w.i:], v)
	w.varint(uint64(len(v)))
	w.byte(tag)
}

// value is bytes for a row's value.
func (w *writer) value(tag byte, v []byte) {
	if w.cut == 0 || len(v) < w.cut {
		w.bytes(tag, v)
		return
	}
	w.values = append(w.values, cutValue{w.i, v})
	w.left += len(v)
	w.varint(uint64(len(v)))
	w.byte(tag)
}

func (w *writer) string(tag byte, v string) {
	if v == "" {
		return
	}
	w.i -= len(v)
	copy(w.b[w.i:], v)
	w.varint(uint64(len(v)))
	w.byte(tag)
}

// close writes the prefix of a message whose fields were written since the writer was at end.
func (w *writer) close(tag byte, end int) {
	w.varint(uint64(end - w.mark()))
	w.byte(tag)
}

// Tags: field number << 3 | wire type (0 varint, 2 bytes).
const (
	tag1Int, tag1Bytes = 1 << 3, 1<<3 | 2
	tag2Int, tag2Bytes = 2 << 3, 2<<3 | 2
	tag3Int, tag3Bytes = 3 << 3, 3<<3 | 2
	tag4Int, tag4Bytes = 4 << 3, 4<<3 | 2
	tag5Int, tag5Bytes = 5 << 3, 5<<3 | 2
	tag6Int, tag6Bytes = 6 << 3, 6<<3 | 2
	tag7Int            = 7 << 3
	tag11Bytes         = 11<<3 | 2
)

// sizeRow and row encode mvccpb.KeyValue.
func sizeRow(r *store.Row) int {
	return sizeBytes(len(r.Key)) + sizeInt(r.CreateRevision) + sizeInt(r.ModRevision) + sizeInt(r.Version) +
		sizeBytes(len(r.Value)) + sizeInt(r.Lease)
}

func (w *writer) row(tag byte, r *store.Row) {
	end := w.mark()
	w.int(tag6Int, r.Lease)
	w.value(tag5Bytes, r.Value)
	w.int(tag4Int, r.Version)
	w.int(tag3Int, r.ModRevision)
	w.int(tag2Int, r.CreateRevision)
	w.bytes(tag1Bytes, r.Key)
	w.close(tag, end)
}

func sizeRows(rows []*store.Row) (n int) {
	for _, r := range rows {
		n += sizeMessage(sizeRow(r))
	}
	return n
}

func (w *writer) rows(tag byte, rows []*store.Row) {
	for i := len(rows) - 1; i >= 0; i-- {
		w.row(tag, rows[i])
	}
}

// sizeEvent and event encode mvccpb.Event. A tombstone has only its key and revision.
func sizeEvent(e *store.Event) (n int) {
	if e.Row.Deleted {
		n = 2 + sizeMessage(sizeBytes(len(e.Row.Key))+sizeInt(e.Row.ModRevision))
	} else {
		n = sizeMessage(sizeRow(e.Row))
	}
	if e.Prev != nil {
		n += sizeMessage(sizeRow(e.Prev))
	}
	return n
}

func (w *writer) event(tag byte, e *store.Event) {
	end := w.mark()
	if e.Prev != nil {
		w.row(tag3Bytes, e.Prev)
	}
	if e.Row.Deleted {
		kv := w.mark()
		w.int(tag3Int, e.Row.ModRevision)
		w.bytes(tag1Bytes, e.Row.Key)
		w.close(tag2Bytes, kv)
		w.int(tag1Int, 1)
	} else {
		w.row(tag2Bytes, e.Row)
	}
	w.close(tag, end)
}
