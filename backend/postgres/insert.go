package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// maxKey is the longest key that fits an entry of the key index, in bytes: a third of a page less what is included.
const maxKey = 2600

// rowOverhead is about what a row takes besides its value and twice its key, in bytes: headers, numbers, entries of indexes.
const rowOverhead = 160

// rowSize is what a row counts for in the clock's bytes.
func rowSize(key, value int) int64 { return int64(2*key + value + rowOverhead) }

// insertArrays are the columns of the rows of one commit, kept to be filled again.
type insertArrays struct {
	keys, values                               [][]byte
	revisions, creates, versions, leases, prev []int64
	ordinals                                   []int32
}

// queue adds the one statement that inserts e's rows and returns their size.
func (a *insertArrays) queue(batch *pgx.Batch, e *backend.Effects) (size int64) {
	clear(a.keys[:cap(a.keys)]) // let go of what the last commit held
	clear(a.values[:cap(a.values)])
	a.keys, a.values, a.ordinals = a.keys[:0], a.values[:0], a.ordinals[:0]
	a.revisions, a.creates, a.versions, a.leases, a.prev = a.revisions[:0], a.creates[:0], a.versions[:0], a.leases[:0], a.prev[:0]
	for i := range e.Rows {
		r := &e.Rows[i]
		size += rowSize(len(r.Key), len(r.Value))
		value := r.Value
		if !r.Deleted {
			value = notNil(value) // NULL is a tombstone's
		}
		a.keys, a.values, a.ordinals = append(a.keys, notNil(r.Key)), append(a.values, value), append(a.ordinals, r.Ordinal)
		a.revisions, a.creates = append(a.revisions, r.ModRevision), append(a.creates, r.CreateRevision)
		a.versions, a.leases, a.prev = append(a.versions, r.Version), append(a.leases, r.Lease), append(a.prev, r.PrevRevision)
	}
	batch.Queue(insertRows, a.keys, a.revisions, a.ordinals, a.creates, a.versions, a.leases, a.prev, e.Batch, a.values)
	return size
}
