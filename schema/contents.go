package schema

import (
	"context"
	"database/sql"
	"fmt"
)

// Contents counts what a database holds.
type Contents struct {
	// Revision is the newest revision.
	Revision int64
	// Keys counts the live keys. Versions also counts their past versions, and those of deleted keys, that are not
	// compacted.
	Keys, Versions int64
	Leases         int64
}

// Measure counts the contents of a database of version 1 or newer. It reads an index of all versions, which takes
// seconds for millions.
func Measure(ctx context.Context, db *sql.DB) (Contents, error) {
	var c Contents
	err := db.QueryRowContext(ctx, "SELECT (SELECT revision FROM clock), (SELECT count(*) FROM objects), "+
		"(SELECT count(*) FROM object_versions), (SELECT count(*) FROM leases)").Scan(&c.Revision, &c.Keys, &c.Versions,
		&c.Leases)
	if err != nil {
		return Contents{}, fmt.Errorf("count the contents of the database: %w", err)
	}
	return c, nil
}

// Living counts the replicas that sent a Postgres database a heartbeat in the last five seconds.
func Living(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx,
		"SELECT count(*) FROM members WHERE seen_at > clock_timestamp() - interval '5 seconds'").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for replicas: %w", err)
	}
	return n, nil
}

// String returns the counts in human-readable form.
func (c Contents) String() string {
	return fmt.Sprintf("%d keys in %d versions up to revision %d, %d leases", c.Keys, c.Versions, c.Revision, c.Leases)
}
