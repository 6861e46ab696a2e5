package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/schema"
)

// withBackend opens the database, which must already hold a store, migrates it if needed, as a start does, and passes
// it to f.
func withBackend(ctx context.Context, cfg *sqlstore.Config, f func(backend.Backend) error) error {
	cfg.DatastoreWait = -1
	if err := cfg.WithDatabase(ctx, holdsStore); err != nil {
		return err
	}
	b, err := cfg.OpenBackend(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(b), b.Close())
}

func holdsStore(ctx context.Context, db *sql.DB) error {
	st, err := schema.Status(ctx, db)
	if err == nil && st.Version == 0 {
		err = fmt.Errorf("%w: the database contains no sqlstore data: check --datastore", errSettings)
	}
	return err
}
