package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// checksumBytes ends a step that adds checksums with the row at which its keys and values reach so many bytes: the log
// gets a copy of each.
const checksumBytes = 256 << 10

// added is the checksum of the row with that id.
type added struct{ id, sum int64 }

// AddChecksums implements [backend.Backend]. Only rows from before the migration lack a checksum, so the work has an
// end. Rows do not change, so a step reads them beside the writer; those that are purged meanwhile are not found.
func (b *Backend) AddChecksums(ctx context.Context, limit int) (res backend.ChecksumResult, err error) {
	b.summing.Lock()
	defer b.summing.Unlock()
	if err := b.writable(); err != nil {
		return res, err
	}
	end := firstID(b.since + 1)
	if b.unsummed >= end {
		return backend.ChecksumResult{Done: true, Through: b.clock.Load().Revision}, nil
	}
	began := time.Now()
	sums, next, err := b.unsummedRows(ctx, end, max(limit, 1), &res)
	if err != nil {
		return backend.ChecksumResult{}, err
	}
	read := time.Since(began)
	if err := b.takeTurn(ctx); err != nil {
		return backend.ChecksumResult{}, err
	}
	defer b.giveTurn()
	began = time.Now()
	err = b.writeLazily("add checksums", func(c *conn) error {
		for _, s := range sums {
			n, err := c.run(addChecksum, s.sum, s.id)
			if err != nil {
				return err
			}
			res.Added += int(n)
		}
		_, err := c.run(saveChecksums, next)
		return err
	})
	if err != nil {
		return backend.ChecksumResult{}, err
	}
	b.unsummed = next
	b.checkpoints.removed(res.Added) // a row takes as much of the log as one that is removed
	res.Through, res.Blocked = revisionOf(next)-1, time.Since(began)
	res.Took = read + res.Blocked
	return res, nil
}

// unsummedRows returns the checksums of the next rows, and the id at which the rows after them begin.
func (b *Backend) unsummedRows(
	ctx context.Context, end int64, limit int, res *backend.ChecksumResult,
) (sums []added, next int64, err error) {
	left := int64(checksumBytes)
	_, err = b.read(ctx, "read rows without checksums", func(c *conn) error {
		return c.each(context.Background(), unsummedRows, func(row []driver.Value) bool {
			id := integer(row[1])
			res.Looked++
			next = id + 1
			if row[rowColumns+1] != nil {
				return true
			}
			var r backend.Row
			readRow(&r, row)
			sums = append(sums, added{id, c.sums.Of(&r, integer(row[rowColumns+2]))})
			left -= r.Size()
			return left > 0
		}, b.unsummed, end, int64(limit))
	})
	if res.Looked < limit && left > 0 {
		next = end
	}
	return sums, next, err
}
