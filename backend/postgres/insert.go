package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// rowOverhead is the approximate space that a row takes besides its value and twice its key, in bytes: headers,
// numbers, index entries.
const rowOverhead = 160

// rowSize returns what a row adds to the bytes in the clock's row.
func rowSize(key, value int) int64 { return int64(2*key + value + rowOverhead) }

// keySize returns the bytes of a key in the column key and, for a long key, in the column long_key.
func keySize(key []byte) (column, beside int) {
	if long(key) {
		return indexedKey, len(key)
	}
	return len(key), 0
}

// insertArrays holds the columns of the rows of one commit. It is reused by the next commit.
type insertArrays struct {
	keys, values, longKeys                     [][]byte
	revisions, creates, versions, leases, prev []int64
	checksums                                  []int64
	ordinals                                   []int32
	sums                                       backend.Sums
}

// queue adds the single statement that inserts e's rows, and returns their size in bytes. written is the time of the
// commit in milliseconds since 1970.
func (a *insertArrays) queue(batch *pgx.Batch, e *backend.Effects, written int64) (size int64) {
	clear(a.keys[:cap(a.keys)]) // drop the references to the last commit's data
	clear(a.values[:cap(a.values)])
	clear(a.longKeys[:cap(a.longKeys)])
	a.keys, a.values, a.longKeys, a.ordinals = a.keys[:0], a.values[:0], a.longKeys[:0], a.ordinals[:0]
	someLong := e.Dated || hasLong(e.Rows)
	times := make([]int64, 0, len(e.Rows)*index(e.Dated))
	a.revisions, a.creates, a.versions, a.leases, a.prev = a.revisions[:0], a.creates[:0], a.versions[:0], a.leases[:0],
		a.prev[:0]
	a.checksums = a.checksums[:0]
	for i := range e.Rows {
		r := &e.Rows[i]
		column, beside := keySize(r.Key)
		size += rowSize(column, len(r.Value)) + int64(beside)
		value := r.Value
		if !r.Deleted {
			value = notNil(value) // NULL marks a tombstone
		}
		a.keys, a.values, a.ordinals = append(a.keys, notNil(indexed(r.Key))), append(a.values, value),
			append(a.ordinals, r.Ordinal)
		if someLong {
			var key []byte // NULL for a short key
			if long(r.Key) {
				key = r.Key
			}
			a.longKeys = append(a.longKeys, key)
		}
		a.revisions, a.creates = append(a.revisions, r.ModRevision), append(a.creates, r.CreateRevision)
		a.versions, a.leases, a.prev = append(a.versions, r.Version), append(a.leases, r.Lease),
			append(a.prev, r.PrevRevision)
		at := written
		if e.Dated {
			at = r.WrittenAt
			times = append(times, at)
		}
		a.checksums = append(a.checksums, a.sums.Of(r, at))
	}
	sql, args := insertRows, []any{
		a.keys, a.revisions, a.ordinals, a.creates, a.versions, a.leases, a.prev, e.Batch,
		a.values, a.checksums, written,
	}
	switch {
	case e.Dated:
		args[len(args)-1] = times
		sql, args = insertDatedRows, append(args, a.longKeys)
	case someLong:
		sql, args = insertLongRows, append(args, a.longKeys)
	}
	batch.Queue(sql, args...)
	return size
}
