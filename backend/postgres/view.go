package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/schema"
)

// ErrOldSchema is returned for a database that no program of this version has opened yet, or that was replaced by such
// a one while a server ran.
var ErrOldSchema = errors.New("the database has the schema of an older version; migrate it with 'sqlstore schema up' " +
	"or by starting a server")

// View implements [backend.View]. It becomes no member and changes nothing.
type View struct{ *Backend }

// Close implements [backend.View].
func (v *View) Close() error {
	v.closePools()
	return nil
}

// OpenView opens the database for reading. Errors: [ErrDSN], [ErrParameter], [ErrUnsuitable], [ErrOldSchema],
// [schema.ErrNewer], [backend.ErrUnavailable].
func OpenView(ctx context.Context, cfg Config) (*View, error) {
	b, err := newBackend(cfg)
	if err != nil {
		return nil, err
	}
	b.unbounded = true // an inspection may take long
	if err := b.checkSchema(ctx); err != nil {
		b.closePools()
		return nil, fmt.Errorf("open the database for reading: %w", err)
	}
	return &View{b}, nil
}

func (b *Backend) checkSchema(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(b.reads.pool)
	st, err := schema.Status(ctx, db)
	err = errors.Join(err, db.Close())
	switch {
	case err != nil:
		return b.translate(ctx, "read the schema's version", err)
	case st.Version == 0:
		return fmt.Errorf("%w: it contains no sqlstore data", ErrUnsuitable)
	case st.Version < st.Newest:
		return ErrOldSchema
	case !st.Usable():
		return schema.ErrNewer
	}
	return nil
}

var _ backend.View = (*View)(nil)
