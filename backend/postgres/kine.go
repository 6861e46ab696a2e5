package postgres

import (
	"context"
	"errors"
)

// ErrKine is returned for a database with kine's table and nothing of sqlstore's: an empty store would be served in the
// place of kine's data.
var ErrKine = errors.New("the database belongs to kine: copy it to another database, with " +
	"'sqlstore import --from kine+postgres://... --datastore ...'; or name another one, or another schema in " +
	"search_path; or drop or rename the table kine")

// onlyKine is true if kine's table is there and sqlstore's first one is not.
const onlyKine = "SELECT to_regclass('schema_migrations') IS NULL AND " +
	"EXISTS (SELECT FROM pg_class WHERE oid = to_regclass('kine') AND relkind IN ('r', 'p'))"

// refuseKine returns [ErrKine] before anything is created beside kine's table.
func (b *Backend) refuseKine(ctx context.Context) error {
	only := false
	err := b.reads.query(ctx, "look for kine's table", nil, func(s *scanner) error { only = s.boolean(); return nil },
		onlyKine)
	if err == nil && only {
		return ErrKine
	}
	return err
}
