package postgres

import (
	"context"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// The statements for the rows of revisions ($1, $2], until there are $3 rows and the last revision is complete. Only
// that of verifiedDigests reads the values.
var (
	plainDigests    = digestsQuery("NULL::bytea AS value")
	verifiedDigests = digestsQuery("value")
)

func digestsQuery(value string) string {
	return "SELECT " + clockColumns + ", (SELECT LEAST(target, next_version - 1) FROM purge WHERE id = 1), r.*" +
		fromClock + " LEFT JOIN LATERAL (SELECT " + rowColumns + ", " + value + ", checksum, written_at, " +
		"octet_length(value) AS size FROM object_versions WHERE resource_version > $1::bigint " +
		"AND resource_version <= $2::bigint ORDER BY resource_version FETCH FIRST ($3::bigint) ROWS WITH TIES) AS r " +
		"ON true"
}

// Digests implements [backend.Backend].
func (b *Backend) Digests(ctx context.Context, q backend.DigestQuery) (backend.Digests, error) {
	sql, values := plainDigests, b.NoPageChecksums()
	if values {
		sql = verifiedDigests
	}
	r := digestReader{q: q, values: values}
	r.d.Rows = q.Into[:0]
	sql, args := underPin(q.Pin, sql, []any{q.After, orAll(q.Until), int64(max(q.Limit, 1))})
	if err := b.laneForMany(ctx).query(ctx, "read digests", r.reset, r.scan, sql, args...); err != nil {
		return backend.Digests{}, err
	}
	r.sort()
	r.d.Through = max(q.After, min(orAll(q.Until), r.d.Clock.Revision))
	if n := len(r.d.Rows); n > 0 && (n >= q.Limit || r.cut) {
		r.d.Through = r.d.Rows[n-1].Row.ModRevision
	}
	return r.d, nil
}

// digestReader collects digests.
type digestReader struct {
	q      backend.DigestQuery
	values bool // are read
	d      backend.Digests
	read   int64 // bytes
	cut    bool  // the server had more than q.Bytes
}

func (r *digestReader) reset() { r.d, r.read, r.cut = backend.Digests{Rows: r.d.Rows[:0]}, 0, false }

func (r *digestReader) scan(s *scanner) error {
	r.d.Clock, r.d.Purged = s.clock(), s.integer()
	if r.cut || s.null() {
		return nil
	}
	var d backend.Digested
	s.digested(&d, r.values)
	n := len(r.d.Rows)
	if n > 0 && reached(r.read, r.q.Bytes) && r.d.Rows[n-1].Row.ModRevision != d.Row.ModRevision {
		r.cut = true
		return nil
	}
	r.read += d.Row.Size()
	r.d.Rows = append(r.d.Rows, d)
	return nil
}

// sort orders the rows of each revision, as reader.through does: the server returns them as it finds them.
func (r *digestReader) sort() {
	byRow := func(a, b backend.Digested) int { return a.Row.ID().Compare(b.Row.ID()) }
	if !slices.IsSortedFunc(r.d.Rows, byRow) {
		slices.SortFunc(r.d.Rows, byRow)
	}
}

// digested reads the columns of a digest, and verifies what was read.
func (s *scanner) digested(d *backend.Digested, values bool) {
	s.row(&d.Row, false)
	if values {
		s.value(&d.Row)
		d.Digest, d.Row.Value = backend.DigestOf(d.Row.Value), nil
		return
	}
	s.next++ // the value
	sum, written, none := s.integer(), s.integer(), s.null()
	size := s.integer()
	switch {
	case s.err != nil:
	case none != d.Row.Deleted:
		s.err = &backend.CorruptRow{Key: d.Row.Key, ID: d.Row.ID()}
	default:
		d.Digest, s.err = s.sums.Digest(&d.Row, written, sum, size)
	}
}
