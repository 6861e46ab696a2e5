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

// HashKV returns the hash that etcd's HashKV returns for a revision: the CRC-32C of what etcd's file has for the rows
// of x.HashedRows. Below revision 0 there are none. Errors: those of x.HashedRows.
func HashKV(ctx context.Context, x *store.Export, revision int64) (uint32, error) {
	h := hasher{sum: crc32.Checksum(bucketKey, castagnoli)}
	if revision < 0 {
		return h.sum, nil
	}
	err := x.HashedRows(ctx, revision, h.row)
	return h.sum, err
}

// Hash returns the hash that etcd returns for the file that [Write] writes. It covers all buckets, in the order of
// their names. Errors: those of x.Rows.
func Hash(ctx context.Context, x *store.Export) (uint32, error) {
	all := besidesRows(x)
	slices.SortFunc(all, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
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
			if err := x.Rows(ctx, h.row); err != nil {
				return 0, err
			}
		}
	}
	return h.sum, nil
}

// hasher computes a CRC-32C.
type hasher struct {
	sum    uint32
	buffer []byte
}

func (h *hasher) add(b []byte) { h.sum = crc32.Update(h.sum, castagnoli, b) }

func (h *hasher) row(r backend.Row) error {
	h.buffer = appendRow(appendRevision(h.buffer[:0], r.ID(), r.Deleted), &r)
	h.add(h.buffer)
	return nil
}
