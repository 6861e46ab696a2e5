package sqlite

import (
	"context"
	"database/sql/driver"
	"math"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pack"
)

// Digests implements [backend.Backend]. SQLite verifies all pages of a row, because the statement reads its value. If
// they have no checksums, or those are not verified, the statement returns the values.
func (b *Backend) Digests(ctx context.Context, q backend.DigestQuery) (d backend.Digests, err error) {
	d.Clock, err = b.scan(ctx, "read digests", func(c *conn) error {
		until := b.clock.Load().Revision
		if q.Until > 0 {
			until = min(until, q.Until)
		}
		var purged purgeProgress
		err := c.each(context.Background(), purgeState, func(row []driver.Value) bool {
			purged = purgeProgress{integer(row[0]), integer(row[1])}
			return false
		})
		if err != nil {
			return err
		}
		d.Purged = min(purged.through(), purged.target)
		p := digestPart{q.After, until, int64(max(q.Limit, 1)), bound(q.Bytes), b.plain, q.Into[:0]}
		for d.Through = q.After; d.Through == q.After && q.After < until; {
			if d.Rows, d.Through, err = c.digests(p); err != nil {
				return err
			}
			p.limit, p.bytes = 2*p.limit, min(p.bytes, math.MaxInt64/2)*2 // for a revision that is larger than that
		}
		d.Rows, d.Through = firstDigests(d.Rows, q.Limit, d.Through)
		return nil
	})
	return d, err
}

// firstDigests returns the revisions of the first limit rows, and through or the last of them.
func firstDigests(rows []backend.Digested, limit int, through int64) ([]backend.Digested, int64) {
	for n := max(limit, 1); n < len(rows); n++ {
		if last := rows[n-1].Row.ModRevision; rows[n].Row.ModRevision != last {
			return rows[:n], last
		}
	}
	return rows, through
}

// digestPart is a part of the history.
type digestPart struct {
	after, until int64
	limit, bytes int64
	values       bool // are read
	into         []backend.Digested
}

// digests reads the whole revisions of the first rows of a part, up to a limit of rows or bytes, with what they take in
// a pack. It returns the revision through which they are complete, which is p.after if the limits end in the first one.
func (c *conn) digests(p digestPart) (rows []backend.Digested, through int64, err error) {
	id := digests
	if p.values {
		id++
	}
	var packed []byte
	err = c.each(context.Background(), id, func(row []driver.Value) bool {
		packed, _ = row[0].([]byte)
		return true
	}, p.limit+1, p.bytes, firstID(p.after+1), firstID(p.until+1))
	if err != nil {
		return nil, p.after, err
	}
	rows = p.into
	r := pack.NewReader(packed)
	for r.More() {
		rows = append(rows, backend.Digested{})
		if err := c.digest(&rows[len(rows)-1], r, p.values); err != nil {
			return nil, p.after, err
		}
	}
	ended, n := r.Ended(), len(rows)
	if ended || r.Err() != nil {
		return rows, p.until, r.Err()
	}
	for last := rows[n-1].Row.ModRevision; n > 0 && rows[n-1].Row.ModRevision == last; {
		n--
	}
	if n == 0 {
		return nil, p.after, nil
	}
	return rows[:n], rows[n-1].Row.ModRevision, nil
}

// digest reads a row of the statements digests. Its key stays a part of what r reads.
func (c *conn) digest(d *backend.Digested, r *pack.Reader, values bool) (err error) {
	row := &d.Row
	row.Key = r.Blob()
	id, _ := r.Int()
	row.ModRevision, row.Ordinal = revisionOf(id), ordinalOf(id)
	deleted, _ := r.Int()
	row.Deleted = deleted != 0
	for _, n := range []*int64{&row.CreateRevision, &row.Version, &row.Lease, &row.PrevRevision} {
		*n, _ = r.Int()
	}
	sum, _ := r.Int()
	written, _ := r.Int()
	size, sized := r.Int()
	value := r.Blob()
	switch {
	case r.Err() != nil:
		return r.Err()
	case row.Deleted == sized:
		return &backend.CorruptRow{Key: row.Key, ID: row.ID()}
	case !values:
		d.Digest, err = c.sums.Digest(row, written, sum, size)
		return err
	}
	row.Value = value
	err = c.sums.Check(row, written, sum)
	d.Digest, row.Value = backend.DigestOf(value), nil
	return err
}
