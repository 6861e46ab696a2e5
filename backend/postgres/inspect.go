package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

const (
	// inspectRows is how many rows or index entries one statement reads for an inspection.
	inspectRows = 1000

	// inspectedRows reads the rows after ($1, $2), each with whether its columns for a long key agree, and with the row
	// that it superseded.
	inspectedRows = "SELECT " + rowColumnsOfV + ", v.value, v.checksum, v.written_at, " +
		"v.long_key IS NULL OR v.key = substr(v.long_key, 1, 2600) || sha256(v.long_key), " +
		"p.resource_version, p.create_revision, p.version " +
		"FROM object_versions AS v LEFT JOIN LATERAL (SELECT * FROM object_versions AS o WHERE o.key = v.key " +
		"AND o.resource_version = v.previous_version AND NOT o.deleted ORDER BY o.ordinal DESC LIMIT 1) AS p " +
		"ON v.previous_version <> 0 WHERE (v.resource_version, v.ordinal) > ($1::bigint, $2::integer) " +
		"ORDER BY v.resource_version, v.ordinal LIMIT $3::bigint"

	// inspectedEntries reads the entries of the key index after ($1, $2, $3), each with whether its row has the same
	// columns. Nothing but the index is read for the entry itself.
	inspectedEntries = "SELECT e.key, e.resource_version, e.ordinal, COALESCE(o.key = e.key " +
		"AND o.deleted = e.deleted AND o.create_revision = e.create_revision AND o.version = e.version " +
		"AND o.lease = e.lease AND o.previous_version = e.previous_version, false) FROM (SELECT " + columns +
		" FROM object_versions WHERE key >= $1::bytea AND (key > $1::bytea OR resource_version < $2::bigint " +
		"OR resource_version = $2::bigint AND ordinal < $3::integer) " +
		"ORDER BY key, resource_version DESC, ordinal DESC LIMIT $4::bigint) AS e " +
		"LEFT JOIN LATERAL (SELECT * FROM object_versions AS r " +
		"WHERE r.resource_version = e.resource_version AND r.ordinal = e.ordinal LIMIT 1) AS o ON true"
	// countRows counts the rows of the table itself, by a column that no index has.
	countRows = "SELECT count(batch) FROM object_versions"

	// onlyByIndex makes the planner read nothing but an index for what it holds, and byTable nothing but the table.
	onlyByIndex = "SET LOCAL enable_indexscan = off"
	byTable     = "SET LOCAL enable_seqscan = on"
)

// beginInspection begins a transaction whose statements use indexes. Its lock is that of a verification. A plan with a
// node that is turned off seems so expensive that Postgres would compile it, which takes longer than the statement.
var beginInspection = []string{
	"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", lockTables, "SET LOCAL statement_timeout = 0",
	"SET LOCAL enable_seqscan = off", "SET LOCAL enable_bitmapscan = off", "SET LOCAL jit = off",
}

// Inspect implements [backend.View]. All of it reads one snapshot, which, like that of pg_dump, keeps vacuum from
// removing what is deleted meanwhile.
func (v *View) Inspect(ctx context.Context, i *backend.Inspection) error {
	c, err := v.reads.pool.Acquire(ctx)
	if err != nil {
		return v.translate(ctx, "inspect", err)
	}
	err = inspect(ctx, c.Conn(), i)
	_ = c.Conn().Close(context.WithoutCancel(ctx)) // its settings must not reach anybody else
	c.Release()
	return v.translate(ctx, "inspect", err)
}

func inspect(ctx context.Context, c *pgx.Conn, i *backend.Inspection) error {
	for _, sql := range beginInspection {
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	var clock backend.Clock
	clocks := 0
	err := scan(ctx, c, func(s *scanner) error { clock, clocks = s.clock(), clocks+1; return nil },
		"SELECT revision, compacted, incarnation FROM clock", nil)
	if err != nil {
		return err
	}
	if clocks != 1 {
		i.Problem("the table clock has %d rows", clocks)
		return nil
	}
	var users backend.Auth
	if err := scan(ctx, c, func(s *scanner) error { authRow(&users, s); return nil }, readAuth, nil); err != nil {
		return err
	}
	i.Auth(&users)
	err = scan(ctx, c, func(s *scanner) error { i.Gaps = importRow(s).Gaps; return nil }, readImport, nil)
	if err != nil {
		return err
	}
	rows, err := inspectRowsOf(ctx, c, i, clock)
	if err != nil {
		return err
	}
	i.Ended(clock)
	entries, err := inspectEntries(ctx, c, i, rows)
	if err != nil {
		return err
	}
	return inspectCounts(ctx, c, i, rows, entries)
}

// inspectRowsOf verifies all rows in the order of the primary key, and counts them.
func inspectRowsOf(
	ctx context.Context, c *pgx.Conn, i *backend.Inspection, clock backend.Clock,
) (rows int64, err error) {
	at := backend.RowID{ModRevision: -1}
	for {
		n := 0
		err := scan(ctx, c, func(s *scanner) error {
			in := backend.Inspected{Clock: clock}
			s.row(&in.Row, false)
			in.Row.Value, in.Sum, in.Written = s.bytes(), s.integer(), s.integer()
			agrees := s.boolean()
			if !s.null() {
				in.Prev = &backend.Row{ModRevision: s.integer(), CreateRevision: s.integer(), Version: s.integer()}
			}
			i.Row(&in)
			if !agrees {
				i.Problem("the row of revision %d has a long key and the substitute of another", in.Row.ModRevision)
			}
			before, id := at, in.Row.ID()
			if !after(id, before) {
				return fmt.Errorf("%w: the primary key of object_versions leads to revision %d after %d; rebuild it "+
					"(REINDEX TABLE object_versions) and inspect again", backend.ErrCorrupt, id.ModRevision,
					before.ModRevision)
			}
			at = id
			n++
			return nil
		}, inspectedRows, []any{at.ModRevision, at.Ordinal, int64(inspectRows)})
		rows += int64(n)
		if err != nil || n < inspectRows {
			return rows, err
		}
	}
}

// after reports whether a row was written after another.
func after(id, other backend.RowID) bool {
	return id.ModRevision > other.ModRevision || id.ModRevision == other.ModRevision && id.Ordinal > other.Ordinal
}

// inspectEntries compares all entries of the index of keys with their rows, and counts them.
func inspectEntries(ctx context.Context, c *pgx.Conn, i *backend.Inspection, rows int64) (entries int64, err error) {
	if _, err := c.Exec(ctx, onlyByIndex); err != nil {
		return 0, err
	}
	key, at := []byte{}, backend.RowID{}
	for {
		n := 0
		err := scan(ctx, c, func(s *scanner) error {
			key = s.bytes()
			at = backend.RowID{ModRevision: s.integer(), Ordinal: int32(s.integer())}
			if !s.boolean() {
				i.Problem("the index of keys has an entry for key %q at revision %d that no row matches", key,
					at.ModRevision)
			}
			n++
			return nil
		}, inspectedEntries, []any{key, at.ModRevision, at.Ordinal, int64(inspectRows)})
		entries += int64(n)
		i.At("index of keys", float64(entries)/float64(max(rows, 1)))
		if err != nil || n < inspectRows {
			return entries, err
		}
		if entries > 2*rows+inspectRows {
			return entries, errors.New("the index of keys leads around in circles; rebuild it " +
				"(REINDEX TABLE object_versions) and inspect again")
		}
	}
}

// inspectCounts compares the number of rows in the table with those that its indexes have.
func inspectCounts(ctx context.Context, c *pgx.Conn, i *backend.Inspection, rows, entries int64) error {
	if _, err := c.Exec(ctx, byTable); err != nil {
		return err
	}
	i.At("table", 0)
	var n int64
	err := scan(ctx, c, func(s *scanner) error { n = s.integer(); return nil }, countRows, nil)
	if err == nil && n != rows {
		i.Problem("the table has %d rows, its primary key leads to %d", n, rows)
	}
	if err == nil && n != entries {
		i.Problem("the table has %d rows, the index of keys %d", n, entries)
	}
	i.At("table", 1)
	return err
}
