package kine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Source is a kine database as it was when it was opened. Only one method at a time may run.
type Source struct {
	dialect  dialect
	db       *sql.DB
	tx       *sql.Tx // one snapshot
	contents backend.Contents
}

var _ backend.Source = (*Source)(nil)

// Open reads what the database at a URL holds, except for its rows, and keeps a snapshot of it open. Errors:
// [backend.ErrSource], [backend.ErrDamagedSource].
func Open(ctx context.Context, url string) (*Source, error) {
	d, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("kine: %w: %w", backend.ErrSource, err)
	}
	db, err := d.reader()
	if err != nil {
		return nil, fmt.Errorf("kine: %w: %w", backend.ErrSource, err)
	}
	s := &Source{dialect: d, db: db}
	s.tx, err = d.snapshot(ctx, db)
	if err == nil {
		err = s.read(ctx)
	}
	if err != nil {
		return nil, errors.Join(s.explain("open", err), s.Close())
	}
	return s, nil
}

// Contents implements [backend.Source].
func (s *Source) Contents() *backend.Contents { return &s.contents }

// Close implements [backend.Source].
func (s *Source) Close() error {
	if s.tx != nil {
		_ = s.tx.Rollback()
	}
	return s.db.Close()
}

func (s *Source) explain(what string, err error) error {
	return fmt.Errorf("kine: %s: %w", what, s.dialect.explain(err))
}

// maxTTL is etcd's longest TTL, in seconds.
const maxTTL = 9_000_000_000

// read fills the contents.
func (s *Source) read(ctx context.Context) error {
	c := &s.contents
	var revision, compacted sql.NullInt64
	if err := s.tx.QueryRowContext(ctx, `
		SELECT MAX(id), (SELECT MAX(prev_revision) FROM kine WHERE name = 'compact_rev_key') FROM kine`,
	).Scan(&revision, &compacted); err != nil {
		return fmt.Errorf("read the table kine: %w", err)
	}
	if !revision.Valid {
		return fmt.Errorf("%w: the table kine is empty", backend.ErrSource)
	}
	// Compaction may delete the tombstone that was the newest row.
	c.Revision, c.Compacted = max(revision.Int64, compacted.Int64), compacted.Int64
	c.Gaps = true
	if c.Revision < 1 || c.Compacted < 0 {
		return fmt.Errorf("%w: its revision is %d, and its compacted revision %d", backend.ErrDamagedSource,
			c.Revision, c.Compacted)
	}
	if err := s.tx.QueryRowContext(ctx, `
		SELECT COUNT(*), COALESCE(SUM(LENGTH(name) + COALESCE(LENGTH(value), 0)), 0) FROM kine AS k WHERE `+
		readable(c.Compacted),
	).Scan(&c.Rows, &c.Bytes); err != nil {
		return fmt.Errorf("count rows: %w", err)
	}
	return s.readLeases(ctx)
}

// readLeases makes a lease of each TTL that a key has.
func (s *Source) readLeases(ctx context.Context) error {
	rows, err := s.tx.QueryContext(ctx, `SELECT DISTINCT k.lease FROM kine AS k WHERE k.lease > 0 AND `+newest+
		` ORDER BY k.lease`)
	if err != nil {
		return fmt.Errorf("read leases: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var ttl int64
		if err := rows.Scan(&ttl); err != nil {
			return fmt.Errorf("read leases: %w", err)
		}
		s.contents.Leases = append(s.contents.Leases, backend.Lease{
			ID: ttl, TTL: time.Duration(min(ttl, maxTTL)) * time.Second,
		})
	}
	return rows.Err()
}

// newest is the condition that row k is what kine lists at the current revision.
const newest = `k.name <> 'compact_rev_key' AND k.deleted = 0 AND NOT EXISTS (
	SELECT 1 FROM kine AS n WHERE n.name = k.name AND n.id > k.id)`

// readable is the condition that row k can be seen at or above the compacted revision.
func readable(compacted int64) string {
	return fmt.Sprintf(`k.name <> 'compact_rev_key' AND (k.id > %d OR k.deleted = 0 AND NOT EXISTS (
		SELECT 1 FROM kine AS n WHERE n.name = k.name AND n.id > k.id AND n.id <= %[1]d))`, compacted)
}

// Rows implements [backend.Source].
func (s *Source) Rows(ctx context.Context, f func(*backend.Row) error) error {
	h := newHistory(s.contents.Compacted, s.dialect.same)
	return s.each(ctx, readable(s.contents.Compacted), func(r *record) error {
		row, err := h.next(r)
		if err != nil || row == nil {
			return err
		}
		return f(row)
	})
}

// Newest calls f with what kine lists at the current revision, in the order of writing: keys with their values,
// revisions and leases, without their versions, which kine does not know. It does not depend on [Source.Rows], so that
// an import can be compared with it.
func (s *Source) Newest(ctx context.Context, f func(*backend.Row) error) error {
	return s.each(ctx, newest, func(r *record) error {
		row := r.row()
		if row.CreateRevision == 0 {
			row.CreateRevision = row.ModRevision // see history.next
		}
		return f(row)
	})
}

// page is how many rows a query returns. A single query for all of them might sort them on disk first, and would time
// out when the target stalls.
const page = 5000

// each calls f with the records that meet a condition, in the order of ids.
func (s *Source) each(ctx context.Context, condition string, f func(*record) error) error {
	after := int64(-1 << 63)
	for {
		last, n, err := s.page(ctx, condition, after, f)
		if err != nil || n < page {
			return err
		}
		after = last
	}
}

func (s *Source) page(
	ctx context.Context, condition string, after int64, f func(*record) error,
) (last int64, n int, err error) {
	rows, err := s.tx.QueryContext(ctx, fmt.Sprintf(`
		SELECT k.id, k.name, k.created, k.deleted, k.create_revision, k.lease, k.value FROM kine AS k
		WHERE k.id > %d AND %s ORDER BY k.id LIMIT %d`, after, condition, page))
	if err != nil {
		return 0, 0, s.explain("read rows", err)
	}
	defer rows.Close()
	for ; rows.Next(); n++ {
		var r record
		if err := rows.Scan(&r.id, &r.name, &r.created, &r.deleted, &r.createRevision, &r.lease,
			&r.value); err != nil {
			return 0, 0, s.explain("read rows", err)
		}
		if err := f(&r); err != nil {
			return 0, 0, err
		}
		last = r.id
	}
	if err := rows.Err(); err != nil {
		return 0, 0, s.explain("read rows", err)
	}
	return last, n, nil
}
