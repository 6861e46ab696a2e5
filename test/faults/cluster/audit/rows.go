package audit

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// confirm commits. With a synchronous standby, its success means that the standby has everything that was committed
// before. Without it, rows may come from a primary that is being replaced, and be lost.
const confirm = "SELECT pg_logical_emit_message(true, 'audit', '')"

// Read adds the rows up to a revision to what r already has. It adds nothing if the server turns out not to be the
// primary.
func Read(ctx context.Context, conn *pgx.Conn, r *history.Recorded, to int64) error {
	rows, err := conn.Query(ctx, `SELECT resource_version, ordinal, key, deleted, create_revision, version, lease,
			previous_version, value
		FROM object_versions WHERE resource_version > $1 AND resource_version <= $2
		ORDER BY resource_version, ordinal`, r.To, to)
	if err != nil {
		return err
	}
	defer rows.Close()
	type row struct {
		history.Event
		ordinal, previous int64
	}
	var all []row // so that a connection that breaks adds nothing
	for rows.Next() {
		var e row
		var key, value []byte
		if err := rows.Scan(&e.Revision, &e.ordinal, &key, &e.Deleted, &e.Create, &e.Version, &e.Lease, &e.previous,
			&value); err != nil {
			return err
		}
		e.Key, e.Value = string(key), string(value)
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	if _, err := conn.Exec(ctx, confirm); err != nil {
		return err
	}
	for _, e := range all {
		if err := r.Add(e.Event, e.ordinal, e.previous); err != nil {
			return err
		}
	}
	return nil
}
