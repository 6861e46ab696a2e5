package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// checksumRows is how many rows a step looks at, of which most may already have a checksum. checksumBytes ends it
	// with the row at which the values without one reach so many bytes.
	checksumRows  = 2000
	checksumBytes = 1 << 20

	readChecksums = "SELECT x.next_version, x.next_ordinal, c.revision" + fromClock + ", checksums AS x WHERE x.id = 1"
	// unsummedRows reads those of the next $4 rows up to revision $3 that lack a checksum, up to $5 rows and about $6
	// bytes, and the last of all of them. The first column is each row's place among all, from 1.
	unsummedRows = "SELECT w.place, w.checksum IS NULL, COALESCE(w.long_key, w.key), " + rest + ", " +
		"CASE WHEN w.checksum IS NULL THEN w.value END, w.written_at FROM " +
		"(SELECT v.*, row_number() OVER o AS place, count(*) FILTER (WHERE checksum IS NULL) OVER p AS before, " +
		"sum(octet_length(value)) FILTER (WHERE checksum IS NULL) OVER p AS bytes " +
		"FROM object_versions AS v WHERE (resource_version, ordinal) >= ($1::bigint, $2::integer) " +
		"AND resource_version <= $3::bigint WINDOW o AS (ORDER BY resource_version, ordinal), " +
		"p AS (o ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) " +
		"ORDER BY resource_version, ordinal LIMIT $4::bigint) AS w " +
		"WHERE (w.checksum IS NULL OR w.place = $4::bigint) AND w.before < $5::bigint " +
		"AND COALESCE(w.bytes, 0) < $6::bigint ORDER BY w.place"
	addChecksums = "UPDATE object_versions AS v SET checksum = d.checksum FROM unnest($1::bigint[], $2::integer[], " +
		"$3::bigint[]) AS d(resource_version, ordinal, checksum) " +
		"WHERE v.resource_version = d.resource_version AND v.ordinal = d.ordinal AND v.checksum IS NULL"
	saveChecksums = "UPDATE checksums SET next_version = $1::bigint, next_ordinal = $2::integer WHERE id = 1"
)

// AddChecksums implements [backend.Backend].
//
// During a rolling upgrade, replicas of an older version write rows without checksums. So the walk never ends: it
// follows the clock, past rows that have one, which costs little.
func (b *Backend) AddChecksums(ctx context.Context, limit int) (res backend.ChecksumResult, err error) {
	err = b.reads.transaction(ctx, "add checksums", func(ctx context.Context, tx pgx.Tx) error {
		res = backend.ChecksumResult{}
		return addMissing(ctx, tx, max(limit, 1), &res)
	})
	if err != nil {
		return backend.ChecksumResult{}, err
	}
	return res, nil
}

func addMissing(ctx context.Context, tx pgx.Tx, limit int, res *backend.ChecksumResult) error {
	// The lock of the purge keeps the two from locking the same rows in different orders.
	for _, sql := range []string{lockPurge, commitLazily} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	began := time.Now()
	var next backend.RowID
	var revision int64
	err := scan(ctx, tx.Conn(), func(s *scanner) error {
		next, revision = backend.RowID{ModRevision: s.integer(), Ordinal: int32(s.integer())}, s.integer()
		return nil
	}, readChecksums, nil)
	if err != nil {
		return err
	}
	if next.ModRevision > revision {
		res.Done, res.Through = true, revision
		return nil
	}
	walk := unsummed{limit: limit, next: next}
	err = scan(ctx, tx.Conn(), walk.add, unsummedRows,
		[]any{next.ModRevision, next.Ordinal, revision, int64(checksumRows), int64(limit), int64(checksumBytes)})
	if err != nil {
		return err
	}
	if !walk.cut() {
		walk.next = backend.RowID{ModRevision: revision + 1}
	}
	if len(walk.sums) > 0 {
		tag, err := tx.Exec(ctx, addChecksums, walk.revisions, walk.ordinals, walk.sums)
		if err != nil {
			return err
		}
		res.Added = int(tag.RowsAffected())
	}
	res.Looked, res.Through = walk.looked, walk.next.ModRevision-1
	_, err = tx.Exec(ctx, saveChecksums, walk.next.ModRevision, walk.next.Ordinal)
	res.Took = time.Since(began)
	return err
}

// unsummed collects the checksums that one step adds.
type unsummed struct {
	limit     int
	looked    int   // rows up to the last one returned
	bytes     int64 // of the values without a checksum
	next      backend.RowID
	revisions []int64
	ordinals  []int32
	sums      []int64
}

// add reads a row of unsummedRows.
func (u *unsummed) add(s *scanner) error {
	u.looked = int(s.integer())
	bare := s.boolean()
	var r backend.Row
	s.row(&r, false)
	r.Value = s.bytes()
	written := s.integer()
	u.next = backend.RowID{ModRevision: r.ModRevision, Ordinal: r.Ordinal + 1}
	if bare {
		u.bytes += int64(len(r.Value))
		u.revisions, u.ordinals = append(u.revisions, r.ModRevision), append(u.ordinals, r.Ordinal)
		u.sums = append(u.sums, s.sums.Of(&r, written))
	}
	return nil
}

// cut reports whether a limit ended the step, so that rows after next may lack a checksum.
func (u *unsummed) cut() bool {
	return u.looked == checksumRows || len(u.sums) >= u.limit || u.bytes >= checksumBytes
}
