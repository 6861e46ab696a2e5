package snapshot

import (
	"encoding/binary"
	"hash/fnv"
	"io"
)

// The sizes of bbolt's format: of a page, of its header, and of what it has for each entry besides key and value.
const (
	pageSize    = 4096
	headerSize  = 16
	elementSize = 16
)

// The kinds of pages.
const (
	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10
)

// bucketEntry marks the entry of a leaf page whose value describes a bucket.
const bucketEntry = 0x01

// order is that of bbolt: the machine's.
var order = binary.NativeEndian

// pages writes the pages of a bbolt file one after the other. bbolt itself would need a file of its own for that.
type pages struct {
	w      io.Writer // io.Discard to find out which pages there will be
	next   int64     // the id of the next page
	buffer []byte
}

// write writes a page with count entries, which may be longer than pageSize. It returns its id.
func (p *pages) write(kind uint16, count int, elements, data []byte) (id int64, err error) {
	id = p.next
	n := pagesFor(int64(headerSize + len(elements) + len(data)))
	b := order.AppendUint64(p.buffer[:0], uint64(id))
	b = order.AppendUint16(b, kind)
	b = order.AppendUint16(b, uint16(count))
	b = order.AppendUint32(b, uint32(n-1))
	b = append(append(b, elements...), data...)
	b = append(b, make([]byte, n*pageSize-int64(len(b)))...)
	p.buffer = b
	p.next += n
	_, err = p.w.Write(b)
	return id, err
}

// pagesFor returns how many pages as many bytes need.
func pagesFor(size int64) int64 { return (size + pageSize - 1) / pageSize }

// begin writes what precedes the buckets of a file with that many pages: two pages that name the root, of which bbolt
// uses the one with the higher transaction, and the list of free pages, which is empty.
func (p *pages) begin(root, all int64) error {
	const magic, version, freelist = 0xED0CDAED, 2, 2
	for transaction := range uint64(freelist) {
		var meta []byte
		for _, v := range []uint32{magic, version, pageSize, 0} {
			meta = order.AppendUint32(meta, v)
		}
		for _, v := range []uint64{uint64(root), 0, freelist, uint64(all), transaction} {
			meta = order.AppendUint64(meta, v)
		}
		sum := fnv.New64a()
		_, _ = sum.Write(meta) // it returns no error
		if _, err := p.write(metaPage, 0, nil, order.AppendUint64(meta, sum.Sum64())); err != nil {
			return err
		}
	}
	_, err := p.write(freelistPage, 0, nil, nil)
	return err
}

// bucketValue returns the value of the entry for a bucket with that root. Without a root it holds an empty page.
func bucketValue(root int64) []byte {
	b := order.AppendUint64(nil, uint64(root))
	b = order.AppendUint64(b, 0) // its sequence, which etcd does not use
	if root > 0 {
		return b
	}
	b = order.AppendUint64(b, 0)
	b = order.AppendUint16(b, leafPage)
	return append(b, make([]byte, 6)...)
}
