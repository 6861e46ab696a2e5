package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// checkTarget refuses a target that holds data or is in use, before a source is read for it. It returns the mark of the
// import that has begun there, 0 if none has.
func checkTarget(ctx context.Context, target *sqlstore.Config) (mark int64, err error) {
	if !target.OnPostgres() {
		path, err := target.Database()
		if err != nil {
			return 0, err
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return 0, nil // it is created only once there is something to write
		}
	}
	target.DatastoreWait = -1
	b, err := target.OpenBackend(ctx)
	if err != nil {
		return 0, err
	}
	mark, err = transfer.Check(ctx, b)
	return mark, errors.Join(err, b.Close())
}

// targetName is the target's name without secrets.
func targetName(target *sqlstore.Config) (string, error) {
	name, err := target.Database()
	if err != nil || target.OnPostgres() {
		return name, err
	}
	return filepath.Abs(name)
}
