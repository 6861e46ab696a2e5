package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// commitLazily makes the transaction's COMMIT not wait for the disk or a standby: rows that a crash brings back are
	// removed again.
	commitLazily = "SET LOCAL synchronous_commit = off"
	expirePins   = "DELETE FROM holds WHERE expires_at <= clock_timestamp()"
	// readTarget reads the compacted revision and the lowest revision that a pin keeps.
	readTarget = "SELECT c.compacted, (SELECT min(revision) FROM holds)" + fromClock
	// purgeRows reads the next rows, each with the row that it superseded, and their sizes.
	purgeRows = "SELECT " + rowColumnsOfV + ", v.checksum, v.written_at, " +
		"octet_length(v.key), COALESCE(octet_length(v.long_key), 0), " +
		"p.resource_version, p.ordinal, octet_length(p.value) " +
		"FROM (SELECT * FROM object_versions WHERE (resource_version, ordinal) >= ($1::bigint, $2::integer) AND " +
		"resource_version <= $3::bigint " +
		"ORDER BY resource_version, ordinal LIMIT $4::bigint) AS v LEFT JOIN LATERAL (SELECT * FROM object_versions " +
		"AS o WHERE o.key = v.key " +
		"AND o.resource_version = v.previous_version AND NOT o.deleted LIMIT 1) AS p ON v.previous_version <> 0"
	deleteRows = "DELETE FROM object_versions AS v USING unnest($1::bigint[], $2::integer[]) AS d(resource_version, " +
		"ordinal) " +
		"WHERE v.resource_version = d.resource_version AND v.ordinal = d.ordinal"
	// deleteOlder removes what a damaged row may have left behind of keys whose tombstones are removed: without the
	// tombstone, an older version would be the newest.
	deleteOlder = "DELETE FROM object_versions AS v USING unnest($1::bytea[], $2::bigint[]) " +
		"AS d(key, resource_version) WHERE v.key = d.key AND v.resource_version < d.resource_version"
	savePurge = "UPDATE purge SET target = $1::bigint, next_version = $2::bigint, next_ordinal = $3::integer, bytes " +
		"= bytes + $4::bigint WHERE id = 1"
)

// purgeProgress is the progress of the removal of rows: those before next are done for a compaction at target.
type purgeProgress struct {
	target int64
	next   backend.RowID
}

// advance makes p the progress of a compaction at target. An earlier compaction left rows at its own target, because a
// watch from there still showed them; they are examined again.
func (p *purgeProgress) advance(target int64) {
	if p.target < target {
		if first := (backend.RowID{ModRevision: p.target}); p.next.ModRevision >= first.ModRevision {
			p.next = first
		}
		p.target = target
	}
}

// superseding is what must be known about a row to remove the row that it superseded.
type superseding struct {
	id       backend.RowID
	deleted  bool
	sound    bool   // it matches its checksum, or has none
	key      []byte // as in the column key
	previous int64  // as stored in the row
	gone     bool   // the row that it superseded no longer exists
	prevID   backend.RowID
	size     int64 // of the row itself, when it is a tombstone
	prevSize int64
}

// removal collects the rows that one step removes.
type removal struct {
	revisions []int64
	ordinals  []int32
	bytes     int64
	// deleted are the keys of the tombstones among them, as in the column key, and deletedAt their revisions.
	deleted   [][]byte
	deletedAt []int64
}

func (r *removal) add(id backend.RowID, bytes int64) {
	r.revisions, r.ordinals = append(r.revisions, id.ModRevision), append(r.ordinals, id.Ordinal)
	r.bytes += bytes
}

// Purge implements [backend.Backend].
//
// Purge walks through the rows in the order in which they were written and removes what each one superseded. So it
// finds everything in a walk as long as the number of revisions, and removes a tombstone only after the row below it,
// which would otherwise become the key's newest. For a row at revision r and a compaction at C >= r, it removes the row
// that it superseded, if that is older than r or r < C; and the row itself, if it is a tombstone and r < C. What
// remains at C is what a watch from C shows. A row that does not match its checksum removes only older versions of its
// key, as it may not be a tombstone.
func (b *Backend) Purge(ctx context.Context, limit int, until int64) (res backend.PurgeResult, err error) {
	err = b.reads.transaction(ctx, "purge", func(ctx context.Context, tx pgx.Tx) error {
		res, err = purge(ctx, tx, max(limit, 1), until)
		return err
	})
	if err != nil {
		return backend.PurgeResult{}, err
	}
	return res, nil
}

func purge(ctx context.Context, tx pgx.Tx, limit int, until int64) (res backend.PurgeResult, err error) {
	var p purgeProgress
	err = scan(ctx, tx.Conn(), func(s *scanner) error {
		p = purgeProgress{s.integer(), backend.RowID{ModRevision: s.integer(), Ordinal: int32(s.integer())}}
		return nil
	}, lockPurge, nil)
	if err != nil {
		return res, err
	}
	began := time.Now()
	compacted, pinned := int64(0), until
	for _, sql := range []string{commitLazily, expirePins} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return res, err
		}
	}
	err = scan(ctx, tx.Conn(), func(s *scanner) error {
		if compacted = s.integer(); !s.null() {
			pinned = min(pinned, s.integer())
		}
		return nil
	}, readTarget, nil)
	if err != nil {
		return res, err
	}
	before := p
	p.advance(min(compacted, pinned))
	if pinned < compacted && p == before && p.next.ModRevision > p.target {
		return res, nil
	}
	var rows []superseding
	err = scan(ctx, tx.Conn(), func(s *scanner) error { rows = append(rows, supersedingRow(s)); return nil },
		purgeRows, []any{p.next.ModRevision, p.next.Ordinal, p.target, int64(limit)})
	if err != nil {
		return res, err
	}
	res.Looked = len(rows)
	var r removal
	res.Done = r.walk(&p, rows, limit)
	if res.Done {
		p.next = backend.RowID{ModRevision: p.target + 1}
	}
	res.Through = min(max(0, p.next.ModRevision-1), p.target)
	res.Near = res.Through
	res.Done = res.Done && p.target >= compacted
	if len(r.revisions) > 0 {
		tag, err := tx.Exec(ctx, deleteRows, r.revisions, r.ordinals)
		if err != nil {
			return res, err
		}
		res.Removed = int(tag.RowsAffected())
	}
	if len(r.deleted) > 0 {
		if _, err := tx.Exec(ctx, deleteOlder, r.deleted, r.deletedAt); err != nil {
			return res, err
		}
	}
	if p != before || res.Removed > 0 {
		_, err = tx.Exec(ctx, savePurge, p.target, p.next.ModRevision, p.next.Ordinal, r.bytes)
	}
	res.Took = time.Since(began)
	return res, err
}

func supersedingRow(s *scanner) superseding {
	var row backend.Row
	s.row(&row, false)
	r := superseding{
		id: row.ID(), deleted: row.Deleted, key: indexed(row.Key), previous: row.PrevRevision, sound: s.null(),
	}
	sum, written := s.integer(), s.integer()
	r.sound = r.sound || s.sums.CheckHead(&row, written, sum) == nil
	key, beside := int(s.integer()), s.integer()
	r.size = rowSize(key, 0) + beside
	if r.gone = s.null(); !r.gone {
		r.prevID = backend.RowID{ModRevision: s.integer(), Ordinal: int32(s.integer())}
		r.prevSize = rowSize(key, int(s.integer())) + beside
	}
	return r
}

// walk chooses up to limit rows to remove, moves p past those that are done, and reports whether no rows are left.
func (r *removal) walk(p *purgeProgress, rows []superseding, limit int) (done bool) {
	for _, row := range rows {
		below := row.id.ModRevision < p.target && row.sound
		if len(r.revisions) < limit && !row.gone && (row.previous < row.id.ModRevision || below) {
			r.add(row.prevID, row.prevSize)
		}
		if len(r.revisions) >= limit {
			return false // the row itself may still have to be removed; it is examined again
		}
		if row.deleted && below {
			r.add(row.id, row.size)
			r.deleted, r.deletedAt = append(r.deleted, row.key), append(r.deletedAt, row.id.ModRevision)
		}
		p.next = backend.RowID{ModRevision: row.id.ModRevision, Ordinal: row.id.Ordinal + 1}
	}
	return len(rows) < limit
}
