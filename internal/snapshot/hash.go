package snapshot

import (
	"bytes"
	"context"
	"hash/crc32"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parts is the number of parts in which a history is read and hashed concurrently. With many, all end at about the same
// time.
const parts = 128

// HashKV returns the hash that etcd's HashKV returns for a revision: the CRC-32C of what etcd's file has for the rows
// of x.Hashed. Below revision 0 there are none. Errors: those of x.Hashed and [store.Hashed.Parts].
func HashKV(ctx context.Context, x *store.Export, revision int64) (uint32, error) {
	var h hasher
	h.add(bucketKey)
	if revision < 0 {
		return h.sum, nil
	}
	rows, err := x.Hashed(ctx, revision)
	if err == nil {
		err = h.rows(ctx, rows)
	}
	return h.sum, err
}

// Hash returns the hash that etcd returns for the [Snapshot] of x, without the remaining TTL of leases. It
// covers all buckets, in the order of their names. Errors: those of x.Exported and [store.Hashed.Parts].
func Hash(ctx context.Context, x *store.Export) (uint32, error) {
	all := metadata(x)
	var h hasher
	for _, bucket := range slices.SortedFunc(slices.Values(buckets), bytes.Compare) {
		h.add(bucket)
		for _, p := range all {
			if !p.unhashed && bytes.Equal(p.bucket, bucket) {
				h.add(p.key)
				h.add(p.value)
			}
		}
		if bytes.Equal(bucket, bucketKey) {
			rows, err := x.Exported(ctx)
			if err == nil {
				err = h.rows(ctx, rows)
			}
			if err != nil {
				return 0, err
			}
		}
	}
	return h.sum, nil
}

// hasher computes the CRC-32C of rows.
type hasher struct {
	sum    uint32
	size   int64
	buffer []byte
}

func (h *hasher) add(b []byte) {
	h.sum = crc32.Update(h.sum, castagnoli, b)
	h.size += int64(len(b))
}

// append continues with size bytes that have the CRC tail.
func (h *hasher) append(tail uint32, size int64) {
	h.sum = backend.AppendCRC(h.sum, tail, size)
	h.size += size
}

// rows continues with rows, of which it reads several parts at a time.
func (h *hasher) rows(ctx context.Context, rows *store.Hashed) error {
	var sums [parts]hasher
	if err := rows.Parts(ctx, parts, func(part int, d *backend.Digested) error {
		return sums[part].digested(d)
	}); err != nil {
		return err
	}
	for i := range sums {
		h.append(sums[i].sum, sums[i].size)
	}
	return nil
}

func (h *hasher) row(r backend.Row) error {
	h.head(&r, int64(len(r.Value)))
	h.add(r.Value)
	h.tail(&r)
	return nil
}

func (h *hasher) digested(d *backend.Digested) error {
	h.head(&d.Row, d.Digest.Size)
	h.append(d.Digest.CRC, d.Digest.Size)
	h.tail(&d.Row)
	return nil
}

// head adds what precedes the row's value, and tail what follows it.
func (h *hasher) head(r *backend.Row, size int64) {
	h.buffer = appendHead(appendRevision(h.buffer[:0], r.ID(), r.Deleted), r, size)
	h.add(h.buffer)
}

func (h *hasher) tail(r *backend.Row) {
	h.buffer = appendTail(h.buffer[:0], r)
	h.add(h.buffer)
}
