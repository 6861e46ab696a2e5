package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/sqlstore/sqlstore/backend"
)

var _ backend.Programs = (*Backend)(nil)

// RecordProgram implements [backend.Programs].
func (b *Backend) RecordProgram(ctx context.Context, version string) (before string, err error) {
	_, err = b.read(ctx, "read which program was last", func(c *conn) error {
		return c.each(context.Background(), lastProgram, func(row []driver.Value) bool {
			before, _ = row[0].(string)
			return false
		})
	})
	if err == nil && before != version {
		_, err = b.change(ctx, "record the program", addProgram, version)
	}
	return before, err
}
