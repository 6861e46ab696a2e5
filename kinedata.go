package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
)

// ErrKineData is returned for a database with the data of a kine, of which sqlstore would show nothing.
var ErrKineData = errors.New("the database belongs to kine")

// refuseKineData returns [ErrKineData] if the database has kine's table, and nothing of sqlstore's yet.
func (c *Config) refuseKineData(ctx context.Context, b backend.Backend, waiting func(error)) error {
	shared, ok := b.(backend.BesideKine)
	if !ok {
		return nil
	}
	if empty, err := c.isEmpty(ctx, b, waiting); err != nil || !empty {
		return err
	}
	var has bool
	err := c.await(ctx, waiting, func() (err error) {
		has, err = shared.HasKineData(ctx)
		return err
	})
	if err != nil || !has {
		return err
	}
	return fmt.Errorf("%w, and an empty store would be served instead of its data: copy it to another database with "+
		"'sqlstore import --from kine+postgres://... --datastore ...'", ErrKineData)
}
