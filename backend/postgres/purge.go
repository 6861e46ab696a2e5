package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// The statements of a purge read index entries only, however the versions are spread over keys: where few keys have
// most of the rows, a plan that reads the table makes each step exceed its timeout. TestPlansOfPurge checks them.
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
	// tombstone, an older version would be the newest. It removes up to olderRows rows. A join with the keys would read
	// the whole table: LATERAL with a LIMIT leaves the planner no choice but the key index. It does not search below
	// rows that are known to be removed, see [purgedKeys]. The comparison is one of pairs: with a plain one, the
	// planner expects few rows, and sorts them.
	deleteOlder = "DELETE FROM object_versions AS v USING (SELECT o.resource_version, o.ordinal " +
		"FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS d(key, resource_version, removed) " +
		"CROSS JOIN LATERAL (SELECT i.resource_version, i.ordinal FROM object_versions AS i " +
		"WHERE i.key = d.key AND i.resource_version < d.resource_version " +
		"AND (i.resource_version, i.ordinal) > (d.removed, 2147483647) " +
		"ORDER BY i.resource_version DESC, i.ordinal DESC LIMIT 64) AS o LIMIT 64) AS w " +
		"WHERE v.resource_version = w.resource_version AND v.ordinal = w.ordinal"
	// olderRows is the limit in deleteOlder. It is not an argument: the planner must know that it is small.
	olderRows = 64
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
	sound    bool   // it matches its checksum
	key      []byte // as in the column key
	previous int64  // as stored in the row
	removed  bool   // the row that it superseded no longer exists
	prevID   backend.RowID
	size     int64 // of the row itself, when it is a tombstone
	prevSize int64
}

// removal collects the rows that one step removes.
type removal struct {
	superseded ids
	tombstones []*superseding // the last one of each key; others are superseded
	place      map[string]int // of each key's tombstone
}

// ids identifies rows, with the total of their sizes.
type ids struct {
	revisions []int64
	ordinals  []int32
	bytes     int64
}

func (l *ids) add(id backend.RowID, bytes int64) {
	l.revisions, l.ordinals = append(l.revisions, id.ModRevision), append(l.ordinals, id.Ordinal)
	l.bytes += bytes
}

// delete deletes the rows, and returns how many there were.
func (l *ids) delete(ctx context.Context, tx pgx.Tx) (int, error) {
	if len(l.revisions) == 0 {
		return 0, nil
	}
	tag, err := tx.Exec(ctx, deleteRows, l.revisions, l.ordinals)
	return int(tag.RowsAffected()), err
}

func (r *removal) count() int { return len(r.superseded.revisions) + len(r.tombstones) }

// addTombstone adds a tombstone, which covers what is left of older versions of its key. So an earlier one is no longer
// needed for that, and each key is asked for once, however often it was deleted.
func (r *removal) addTombstone(row *superseding) {
	if i, ok := r.place[string(row.key)]; ok {
		r.superseded.add(r.tombstones[i].id, r.tombstones[i].size)
		r.tombstones[i] = row
		return
	}
	if r.place == nil {
		r.place = map[string]int{}
	}
	r.place[string(row.key)] = len(r.tombstones)
	r.tombstones = append(r.tombstones, row)
}

// delete deletes the rows. done is false if the tombstones remain for another step, because there was too much older
// than them. known are keys of which rows are removed; it adds those of the tombstones to s.
func (r *removal) delete(
	ctx context.Context, tx pgx.Tx, known *purgedKeys, s *purgedStep,
) (removed int, bytes int64, done bool, err error) {
	removed, err = r.superseded.delete(ctx, tx)
	if err != nil || len(r.tombstones) == 0 {
		return removed, r.superseded.bytes, true, err
	}
	var last ids
	keys := make([][]byte, len(r.tombstones))
	for i, t := range r.tombstones {
		last.add(t.id, t.size)
		keys[i] = t.key
	}
	tag, err := tx.Exec(ctx, deleteOlder, keys, last.revisions, known.below(s.before, keys))
	if err != nil || tag.RowsAffected() >= olderRows {
		return removed, r.superseded.bytes, false, err
	}
	s.keys, s.revisions = keys, last.revisions
	n, err := last.delete(ctx, tx)
	return removed + n, r.superseded.bytes + last.bytes, true, err
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
	var step purgedStep
	err = b.reads.transaction(ctx, "purge", func(ctx context.Context, tx pgx.Tx) error {
		res, step, err = b.purge(ctx, tx, max(limit, 1), until)
		return err
	})
	if err != nil {
		return backend.PurgeResult{}, err
	}
	b.purged.add(step)
	return res, nil
}

func (b *Backend) purge(
	ctx context.Context, tx pgx.Tx, limit int, until int64,
) (res backend.PurgeResult, step purgedStep, err error) {
	p, err := acquirePurge(ctx, tx)
	if err != nil {
		return res, step, err
	}
	step.before, step.after = p, p
	began := time.Now()
	compacted, pinned := int64(0), until
	for _, sql := range []string{commitLazily, expirePins} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return res, step, err
		}
	}
	err = scan(ctx, tx.Conn(), func(s *scanner) error {
		if compacted = s.integer(); !s.null() {
			pinned = min(pinned, s.integer())
		}
		return nil
	}, readTarget, nil)
	if err != nil {
		return res, step, err
	}
	p.advance(min(compacted, pinned))
	if pinned < compacted && p == step.before && p.next.ModRevision > p.target {
		return res, step, nil
	}
	from := p.next
	var rows []superseding
	err = scan(ctx, tx.Conn(), func(s *scanner) error { rows = append(rows, supersedingRow(s)); return nil },
		purgeRows, []any{p.next.ModRevision, p.next.Ordinal, p.target, int64(limit)})
	if err != nil {
		return res, step, err
	}
	res.Examined = len(rows)
	var r removal
	res.Done = r.walk(&p, rows, limit)
	if res.Done {
		p.next = backend.RowID{ModRevision: p.target + 1}
	}
	removed, bytes, done, err := r.delete(ctx, tx, &b.purged, &step)
	if err != nil {
		return res, step, err
	}
	if !done { // the same rows are examined again
		p.next, res.Done = from, false
	}
	res.Removed = removed
	res.Through = min(max(0, p.next.ModRevision-1), p.target)
	res.Near = res.Through
	res.Done = res.Done && p.target >= compacted
	step.after = p
	if p != step.before || res.Removed > 0 {
		tag, err := tx.Exec(ctx, savePurge, p.target, p.next.ModRevision, p.next.Ordinal, bytes)
		if err == nil && tag.RowsAffected() == 0 {
			err = errNoPurge
		}
		if err != nil {
			return res, step, err
		}
	}
	res.Duration = time.Since(began)
	return res, step, nil
}

// acquirePurge keeps others from removing rows and from creating pins until the transaction ends.
func acquirePurge(ctx context.Context, tx pgx.Tx) (p purgeProgress, err error) {
	there := false
	err = scan(ctx, tx.Conn(), func(s *scanner) error {
		there = true
		p = purgeProgress{s.integer(), backend.RowID{ModRevision: s.integer(), Ordinal: int32(s.integer())}}
		return nil
	}, lockPurge, nil)
	if err == nil && !there {
		err = errNoPurge
	}
	return p, err
}

func supersedingRow(s *scanner) superseding {
	var row backend.Row
	s.row(&row, false)
	r := superseding{
		id: row.ID(), deleted: row.Deleted, key: indexed(row.Key), previous: row.PrevRevision,
	}
	sum, written := s.integer(), s.integer()
	r.sound = s.sums.CheckHead(&row, written, sum) == nil
	key, beside := int(s.integer()), s.integer()
	r.size = rowSize(key, 0) + beside
	if r.removed = s.null(); !r.removed {
		r.prevID = backend.RowID{ModRevision: s.integer(), Ordinal: int32(s.integer())}
		r.prevSize = rowSize(key, int(s.integer())) + beside
	}
	return r
}

// walk chooses up to limit rows to remove, moves p past those that are done, and reports whether no rows are left.
func (r *removal) walk(p *purgeProgress, rows []superseding, limit int) (done bool) {
	for i := range rows {
		row := &rows[i]
		below := row.id.ModRevision < p.target && row.sound
		if r.count() < limit && !row.removed && (row.previous < row.id.ModRevision || below) {
			r.superseded.add(row.prevID, row.prevSize)
		}
		if r.count() >= limit {
			return false // the row itself may still have to be removed; it is examined again
		}
		if row.deleted && below {
			r.addTombstone(row)
		}
		p.next = backend.RowID{ModRevision: row.id.ModRevision, Ordinal: row.id.Ordinal + 1}
	}
	return len(rows) < limit
}
