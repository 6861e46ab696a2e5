package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// A verification reads the table by sequential scans, because an index may not lead to all rows, and the leaves of the
// indexes by index-only scans. Then it looks up each entry, because a scan of the leaves does not read the pages above
// them.
const (
	// onlyTable makes the planner use no index, onlyLeaves only the index that has a query's order. onlyLookups makes
	// it look up one entry at a time.
	onlyTable = "SELECT set_config('enable_indexscan', 'off', true), " +
		"set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true), " +
		"set_config('enable_seqscan', 'on', true)"
	onlyLeaves = "SELECT set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true), " +
		"set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)"
	onlyLookups = "SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), " +
		"set_config('enable_material', 'off', true), set_config('jit', 'off', true)"
	// noTimeouts turns off the timeouts of a transaction and its statements.
	noTimeouts = "SELECT set_config(name, '0', true) FROM pg_settings " +
		"WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')"

	// lockTables comes before the first query, which takes the snapshot: a program that rewrites a table, such as
	// pg_repack, may leave an older snapshot without rows.
	lockTables = "LOCK TABLE clock, object_versions IN ACCESS SHARE MODE"

	allClocks = "SELECT revision, compacted, incarnation FROM clock"
	// allHeads reads all rows without their values, but with whether they have one, and whether the two columns of a
	// long key agree.
	allHeads = "SELECT " + rowColumns + ", value IS NULL, checksum, written_at, " +
		"long_key IS NULL OR key = substr(long_key, 1, 2600) || sha256(long_key) FROM object_versions"

	// idSum hashes a row's id, entrySum every column in the index of keys, leaseSum those in the index of leases. Equal
	// sets of rows have equal sums of hashes.
	idSum    = "hashint8extended(resource_version, ordinal)"
	entrySum = "hashtextextended(encode(key, 'hex') COLLATE \"C\", hashint8extended(create_revision, " +
		"hashint8extended(version, hashint8extended(lease, hashint8extended(previous_version, " +
		"hashint8extended(deleted::integer, " + idSum + "))))))"
	leaseSum  = "hashtextextended(encode(key, 'hex') COLLATE \"C\", lease)"
	tableSums = "SELECT count(*), COALESCE(sum(" + idSum + "), 0)::text, COALESCE(sum(" + entrySum + "), 0)::text, " +
		"count(*) FILTER (WHERE lease <> 0), COALESCE(sum(" + leaseSum + ") FILTER (WHERE lease <> 0), 0)::text, " +
		"COALESCE(sum(" + idSum + ") FILTER (WHERE lease <> 0), 0)::text FROM object_versions"
	idSums = "SELECT count(*), COALESCE(sum(" + idSum + "), 0)::text FROM (SELECT resource_version, ordinal " +
		"FROM object_versions ORDER BY resource_version, ordinal LIMIT $1::bigint) AS e"
	entrySums = "SELECT count(*), COALESCE(sum(" + entrySum + "), 0)::text FROM (SELECT " + columns +
		" FROM object_versions ORDER BY key, resource_version DESC, ordinal DESC LIMIT $1::bigint) AS e"
	leaseSums = "SELECT count(*), COALESCE(sum(" + leaseSum + "), 0)::text FROM (SELECT lease, key " +
		"FROM object_versions WHERE lease <> 0 ORDER BY lease, key LIMIT $1::bigint) AS e"
	// notFound looks up each entry of the index of keys, whose leaves have been verified, and returns one that a search
	// does not find or that leads to another row: Postgres does not compare a row with the entry that led to it. The
	// query must read that row, because no index has ctid. With sorts off, the order makes the planner look up the key
	// in the index of keys; for a table that was never vacuumed, it would prefer the primary key.
	notFound = "SELECT t.resource_version, " + misledByKey + " FROM object_versions AS t LEFT JOIN LATERAL (SELECT " +
		"o.ctid, o.key, o.resource_version, o.ordinal FROM object_versions AS o WHERE o.key = t.key " +
		"AND o.resource_version = t.resource_version AND o.ordinal = t.ordinal ORDER BY o.deleted LIMIT 1) AS k ON " +
		"true LEFT JOIN LATERAL (SELECT o.ctid, o.resource_version, o.ordinal FROM object_versions AS o " +
		"WHERE o.resource_version = t.resource_version AND o.ordinal = t.ordinal LIMIT 1) AS p ON true " +
		"WHERE " + misledByKey + " OR p.ctid IS NULL OR p.resource_version IS DISTINCT FROM t.resource_version " +
		"OR p.ordinal IS DISTINCT FROM t.ordinal LIMIT 1"
	misledByKey = "(k.ctid IS NULL OR k.key IS DISTINCT FROM t.key OR k.resource_version IS DISTINCT FROM " +
		"t.resource_version OR k.ordinal IS DISTINCT FROM t.ordinal)"
	// leasedIDs looks up the keys of each lease. The filter leaves out rows to which an entry of another lease leads.
	// An entry that leads to another row of its lease replaces one id by another.
	leasedIDs = "SELECT COALESCE(sum(k.n), 0)::bigint, COALESCE(sum(k.ids), 0)::text FROM (SELECT lease " +
		"FROM object_versions WHERE lease <> 0 GROUP BY lease ORDER BY lease) AS l CROSS JOIN LATERAL (SELECT " +
		"count(o.ctid) FILTER (WHERE o.lease = l.lease) AS n, sum(" + idSum + ") FILTER (WHERE o.lease = l.lease) " +
		"AS ids FROM object_versions AS o WHERE o.lease = l.lease AND o.lease <> 0) AS k"
)

// Server implements [backend.Verifying].
func (b *Backend) Server() backend.Server { return b.servers.server() }

// Verify implements [backend.Verifying]. Its snapshot, like that of pg_dump, keeps vacuum from removing what is deleted
// meanwhile. It uses its own connection, because a pool may have only one for all reads.
func (b *Backend) Verify(ctx context.Context, v backend.Verifier) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-b.closing:
			cancel()
		case <-running.Done():
		}
	}()
	c, err := b.connectOnce(running)
	if err == nil {
		if err = verify(running, c, v); err == nil {
			_, err = c.Exec(running, "ROLLBACK") // the server logs a connection that ends inside a transaction
		}
		_ = c.PgConn().Conn().Close() // without reading the rest of an answer
	}
	return b.translate(ctx, "verify the database", err)
}

// connectOnce opens a connection outside the pools.
func (b *Backend) connectOnce(ctx context.Context) (*pgx.Conn, error) {
	cc := b.dsn.Copy()
	if err := b.prepareCancelling(ctx, cc); err != nil {
		return nil, err
	}
	connecting, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(connecting, cc)
	if err != nil {
		return nil, err
	}
	if err := b.greet(connecting, c); err != nil {
		_ = c.PgConn().Conn().Close()
		return nil, err
	}
	return c, nil
}

func verify(ctx context.Context, c *pgx.Conn, v backend.Verifier) error {
	for _, sql := range []string{
		"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", lockTables, noTimeouts, onlyTable,
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	var clock backend.Clock
	clocks := 0
	err := scan(ctx, c, func(s *scanner) error { clock, clocks = s.clock(), clocks+1; return nil }, allClocks, nil)
	switch {
	case err != nil:
		return err
	case clocks != 1:
		return fmt.Errorf("%w: the table clock has %d rows instead of one; restore a backup", backend.ErrCorrupt,
			clocks)
	}
	if err := v.Begin(clock); err != nil {
		return err
	}
	if err := scan(ctx, c, func(s *scanner) error { return s.head(v) }, allHeads, nil); err != nil {
		return err
	}
	t, err := readTotals(ctx, c)
	if err != nil {
		return err
	}
	if err := t.verifyLeaves(ctx, c); err != nil {
		return err
	}
	if err := v.Rows(); err != nil {
		return err
	}
	return t.verifyLookups(ctx, c)
}

// head verifies a row of allHeads and passes it to v.
func (s *scanner) head(v backend.Verifier) error {
	var r backend.Row
	s.row(&r, false)
	none, sum, written := s.boolean(), s.integer(), s.integer()
	agrees := s.boolean()
	if s.err != nil {
		return s.err
	}
	if none != r.Deleted || !agrees {
		return &backend.CorruptRow{Key: r.Key, ID: r.ID()}
	}
	if err := s.sums.CheckHead(&r, written, sum); err != nil {
		return err
	}
	return v.Row(&r)
}

// totals are what the indexes must agree with: the number of the table's rows and of those with a lease, and the sums
// of their hashes.
type totals struct {
	rows, leased                    int64
	ids, entries, leases, leasedIDs string
}

// readTotals reads the table.
func readTotals(ctx context.Context, c *pgx.Conn) (t totals, err error) {
	err = scan(ctx, c, func(s *scanner) error {
		t = totals{
			rows: s.integer(), ids: s.text(), entries: s.text(),
			leased: s.integer(), leases: s.text(), leasedIDs: s.text(),
		}
		return nil
	}, tableSums, nil)
	return t, err
}

// verifyLeaves compares the entries of the indexes with the rows of the table.
func (t *totals) verifyLeaves(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, onlyLeaves); err != nil {
		return err
	}
	for _, x := range []struct {
		name, sql, want string
		rows            int64
	}{
		{"primary key", idSums, t.ids, t.rows},
		{"index of keys", entrySums, t.entries, t.rows},
		{"index of leases", leaseSums, t.leases, t.leased},
	} {
		var n int64
		var sum string
		// The limit ends the scan of an index whose pages form a cycle.
		read := func(s *scanner) error { n, sum = s.integer(), s.text(); return nil }
		err := scan(ctx, c, read, x.sql, []any{x.rows + 1})
		switch {
		case err != nil:
			return err
		case n != x.rows || sum != x.want:
			return damaged("the %s has %d entries that do not match the table's %d rows", x.name, n, x.rows)
		}
	}
	return nil
}

// verifyLookups looks up each row of the table in the indexes.
func (t *totals) verifyLookups(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, onlyLookups); err != nil {
		return err
	}
	err := scan(ctx, c, func(s *scanner) error {
		revision, which := s.integer(), "primary key"
		if s.boolean() {
			which = "index of keys"
		}
		return damaged("the %s does not lead to a row of revision %d", which, revision)
	}, notFound, nil)
	if err != nil {
		return err
	}
	var n int64
	var ids string
	err = scan(ctx, c, func(s *scanner) error { n, ids = s.integer(), s.text(); return nil }, leasedIDs, nil)
	if err != nil {
		return err
	}
	if n != t.leased || ids != t.leasedIDs {
		return damaged("the index of leases leads to %d keys that do not match the table's %d", n, t.leased)
	}
	return nil
}

// damaged returns the error for an index that does not match the table.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s; find all damage with 'sqlstore check', then run REINDEX TABLE object_versions or "+
		"restore a backup", backend.ErrCorrupt, fmt.Sprintf(format, args...))
}
