package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

// A verification reads the table by sequential scans, because an index may not lead to all rows, and the leaves of the
// indexes by index-only scans. Then it looks up each of them, because a scan of the leaves does not depend on the pages
// above them.
const (
	// onlyTable makes the planner use no index, and onlyLeaves nothing but the index that has a query's order. onlyDown
	// makes it look up one entry after another.
	onlyTable = "SELECT set_config('enable_indexscan', 'off', true), " +
		"set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true), " +
		"set_config('enable_seqscan', 'on', true)"
	onlyLeaves = "SELECT set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true), " +
		"set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)"
	onlyDown = "SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), " +
		"set_config('enable_material', 'off', true), set_config('jit', 'off', true)"
	// unhurried lets the statements of a transaction take their time.
	unhurried = "SELECT set_config(name, '0', true) FROM pg_settings " +
		"WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')"

	allClocks = "SELECT revision, compacted, incarnation FROM clock"
	// allHeads reads all rows without their values, each with whether its columns for a long key agree, and whether it
	// has no value.
	allHeads = "SELECT " + rowColumns + ", value IS NULL, checksum IS NULL, checksum, written_at, " +
		"long_key IS NULL OR key = substr(long_key, 1, 2600) || sha256(long_key) FROM object_versions"

	// idSum is a hash of a row's id, entrySum of all that the index of keys has of it. The sums of the hashes of all
	// rows are equal if the rows are.
	idSum    = "hashint8extended(resource_version, ordinal)"
	entrySum = "hashtextextended(encode(key, 'hex') COLLATE \"C\", hashint8extended(create_revision, " +
		"hashint8extended(version, hashint8extended(lease, hashint8extended(previous_version, " +
		"hashint8extended(deleted::integer, " + idSum + "))))))"
	leaseSum  = "hashtextextended(encode(key, 'hex') COLLATE \"C\", lease)"
	tableSums = "SELECT count(*), COALESCE(sum(" + idSum + "), 0)::text, COALESCE(sum(" + entrySum + "), 0)::text, " +
		"count(*) FILTER (WHERE lease <> 0), COALESCE(sum(" + leaseSum + ") FILTER (WHERE lease <> 0), 0)::text " +
		"FROM object_versions"
	idSums = "SELECT count(*), COALESCE(sum(" + idSum + "), 0)::text FROM (SELECT resource_version, ordinal " +
		"FROM object_versions ORDER BY resource_version, ordinal LIMIT $1::bigint) AS e"
	entrySums = "SELECT count(*), COALESCE(sum(" + entrySum + "), 0)::text FROM (SELECT " + columns +
		" FROM object_versions ORDER BY key, resource_version DESC, ordinal DESC LIMIT $1::bigint) AS e"
	leaseSums = "SELECT count(*), COALESCE(sum(" + leaseSum + "), 0)::text FROM (SELECT lease, key " +
		"FROM object_versions WHERE lease <> 0 ORDER BY lease, key LIMIT $1::bigint) AS e"
	// notFound looks up each entry of the index of keys, of which the leaves have been verified, and returns those that
	// a search does not find, or that lead to another row: Postgres does not compare a row with the entry that led to
	// it. It reads that row because no index has ctid. As sorts are off, the order makes the planner look up the key in
	// the index of keys: for a table that was not vacuumed, it would prefer the primary key.
	notFound = "SELECT t.resource_version, " + misledByKey + " FROM object_versions AS t LEFT JOIN LATERAL (SELECT " +
		"o.ctid, o.key, o.resource_version, o.ordinal FROM object_versions AS o WHERE o.key = t.key " +
		"AND o.resource_version = t.resource_version AND o.ordinal = t.ordinal ORDER BY o.deleted LIMIT 1) AS k ON " +
		"true LEFT JOIN LATERAL (SELECT o.ctid, o.resource_version, o.ordinal FROM object_versions AS o " +
		"WHERE o.resource_version = t.resource_version AND o.ordinal = t.ordinal LIMIT 1) AS p ON true " +
		"WHERE " + misledByKey + " OR p.ctid IS NULL OR p.resource_version IS DISTINCT FROM t.resource_version " +
		"OR p.ordinal IS DISTINCT FROM t.ordinal LIMIT 1"
	misledByKey = "(k.ctid IS NULL OR k.key IS DISTINCT FROM t.key OR k.resource_version IS DISTINCT FROM " +
		"t.resource_version OR k.ordinal IS DISTINCT FROM t.ordinal)"
	// lostKeys looks up the keys of each lease.
	lostKeys = "SELECT l.lease FROM (SELECT lease, count(*) AS n FROM object_versions WHERE lease <> 0 GROUP BY " +
		"lease ORDER BY lease) AS l CROSS JOIN LATERAL (SELECT count(o.ctid) FILTER (WHERE o.lease = l.lease) AS n " +
		"FROM object_versions AS o WHERE o.lease = l.lease AND o.lease <> 0) AS k WHERE k.n <> l.n LIMIT 1"
)

// Server implements [backend.Verifying].
func (b *Backend) Server() backend.Server { return b.servers.server() }

// Verify implements [backend.Verifying]. Its snapshot, like that of pg_dump, keeps vacuum from removing what is deleted
// meanwhile. It has a connection of its own: a pool may have a single one for all reads.
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
		_ = c.PgConn().Conn().Close() // what is left of an answer is not read
	}
	return b.translate(ctx, "verify the database", err)
}

// connectOnce returns a connection that is in no pool.
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
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", unhurried, onlyTable} {
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
	if err := verifyLeaves(ctx, c); err != nil {
		return err
	}
	if err := v.Rows(); err != nil {
		return err
	}
	return verifyLookups(ctx, c)
}

// head verifies a row of allHeads and passes it to v.
func (s *scanner) head(v backend.Verifier) error {
	var r backend.Row
	s.row(&r, false)
	none, bare, sum, written := s.boolean(), s.boolean(), s.integer(), s.integer()
	agrees := s.boolean()
	if s.err != nil {
		return s.err
	}
	if none != r.Deleted || !agrees {
		return &backend.CorruptRow{Key: r.Key, ID: r.ID()}
	}
	if !bare {
		if err := s.sums.CheckHead(&r, written, sum); err != nil {
			return err
		}
	}
	return v.Row(&r)
}

// verifyLeaves compares the rows of the table with the entries of the indexes.
func verifyLeaves(ctx context.Context, c *pgx.Conn) error {
	var rows, leased int64
	var ids, entries, leases string
	err := scan(ctx, c, func(s *scanner) error {
		rows, ids, entries, leased, leases = s.integer(), s.text(), s.text(), s.integer(), s.text()
		return nil
	}, tableSums, nil)
	if err != nil {
		return err
	}
	if _, err := c.Exec(ctx, onlyLeaves); err != nil {
		return err
	}
	for _, x := range []struct {
		name, sql, want string
		rows            int64
	}{
		{"primary key", idSums, ids, rows},
		{"index of keys", entrySums, entries, rows},
		{"index of leases", leaseSums, leases, leased},
	} {
		var n int64
		var sum string
		// The limit ends the scan of an index that leads around in circles.
		read := func(s *scanner) error { n, sum = s.integer(), s.text(); return nil }
		err := scan(ctx, c, read, x.sql, []any{x.rows + 1})
		switch {
		case err != nil:
			return err
		case n != x.rows || sum != x.want:
			return damaged("the %s has %d entries, and they do not match the table's %d rows", x.name, n, x.rows)
		}
	}
	return nil
}

// verifyLookups looks up each row of the table in the indexes.
func verifyLookups(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, onlyDown); err != nil {
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
	return scan(ctx, c, func(s *scanner) error {
		return damaged("the index of leases does not lead to all keys of lease %016x", s.integer())
	}, lostKeys, nil)
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s; find all damage with 'sqlstore check', then run REINDEX TABLE object_versions or "+
		"restore a backup", backend.ErrCorrupt, fmt.Sprintf(format, args...))
}
