package schema

import (
	"context"
	"database/sql"
	"fmt"
)

// Contents is how much a database holds.
type Contents struct {
	// Revision is the newest one.
	Revision int64
	// Keys are those that live, Versions theirs and those of the past that are not compacted.
	Keys, Versions int64
	Leases         int64
}

// Measure counts what a database of version 1 or newer holds. It reads an index of all versions: seconds for millions.
func Measure(ctx context.Context, db *sql.DB) (Contents, error) {
	var c Contents
	err := db.QueryRowContext(ctx, "SELECT (SELECT revision FROM clock), (SELECT count(*) FROM objects), "+
		"(SELECT count(*) FROM object_versions), (SELECT count(*) FROM leases)").Scan(&c.Revision, &c.Keys, &c.Versions,
		&c.Leases)
	if err != nil {
		return Contents{}, fmt.Errorf("count what the database holds: %w", err)
	}
	return c, nil
}

// Living counts the replicas that a Postgres database has heard of in the last five seconds.
func Living(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx,
		"SELECT count(*) FROM members WHERE seen_at > clock_timestamp() - interval '5 seconds'").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("look for replicas: %w", err)
	}
	return n, nil
}

// String tells the figures in words.
func (c Contents) String() string {
	return fmt.Sprintf("%d keys in %d versions up to revision %d, %d leases", c.Keys, c.Versions, c.Revision, c.Leases)
}
