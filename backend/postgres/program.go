package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/backend"
)

var _ backend.Programs = (*Backend)(nil)

const (
	lastProgram = "SELECT version FROM programs ORDER BY id DESC LIMIT 1"
	// addProgram adds nothing if another replica adds a program at the same time.
	addProgram = "INSERT INTO programs (id, version, started_at) " +
		"SELECT COALESCE(max(id), 0) + 1, $1::text, clock_timestamp() FROM programs ON CONFLICT DO NOTHING"
)

// RecordProgram implements [backend.Programs].
func (b *Backend) RecordProgram(ctx context.Context, version string) (before string, err error) {
	err = b.reads.query(ctx, "read which program was last", func() { before = "" },
		func(s *scanner) error { before = s.text(); return nil }, lastProgram)
	if err != nil || before == version {
		return before, err
	}
	return before, b.reads.transaction(ctx, "record the program", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, addProgram, version)
		return err
	})
}
