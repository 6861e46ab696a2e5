package schema

import "errors"

var (
	// ErrNewer is returned for a database that a newer program has migrated, to a version that does not serve this one.
	ErrNewer = errors.New("database schema is newer than this program; start the newer version again")
	// ErrDirty is returned for a database that another tool left with half a migration.
	ErrDirty = errors.New("database migration broke off half-way")
	// ErrLocked is returned when others hold locks of the tables for as long as a migration waits for them.
	ErrLocked = errors.New("others hold locks of sqlstore's tables")
)
