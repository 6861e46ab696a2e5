package schema

import "errors"

var (
	// ErrNewer is returned for a database that a newer program has migrated to a version that this one cannot use.
	ErrNewer = errors.New("database schema is newer than this program; start the newer version again")
	// ErrDirty is returned for a database that another tool left half migrated.
	ErrDirty = errors.New("database migration stopped half-way")
	// ErrKine is returned for a database with kine's table and nothing of sqlstore's: an empty store would be served in
	// the place of kine's data.
	ErrKine = errors.New("the database belongs to kine: copy it to another database, with " +
		"'sqlstore import --from kine+postgres://... --datastore ...'; or name another one, or another schema in " +
		"search_path; or drop or rename the table kine")
	// ErrLocked is returned if others hold locks on the tables for longer than a migration waits.
	ErrLocked = errors.New("others hold locks on sqlstore's tables")
)
