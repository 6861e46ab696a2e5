package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sqlstore/sqlstore/backend"
)

var _ backend.BesideKine = (*Backend)(nil)

// HasKineData implements [backend.BesideKine].
func (b *Backend) HasKineData(ctx context.Context) (has bool, err error) {
	err = b.reads.query(ctx, "look for kine's table", nil, func(s *scanner) error { has = s.boolean(); return nil },
		"SELECT to_regclass('kine') IS NOT NULL")
	return has, err
}

// CreateDatabase creates the database that the DSN names if the server has none of that name, and returns its name, or
// "" if it exists. It connects to the database postgres for that. Errors: [ErrDSN], the server's.
func CreateDatabase(ctx context.Context, cfg Config) (created string, err error) {
	pc, err := poolConfig(cfg)
	if err != nil {
		return "", err
	}
	c, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err == nil {
		return "", c.Close(ctx)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != codeNoDatabase {
		return "", fmt.Errorf("connect: %w", err)
	}
	name := pc.ConnConfig.Database
	other := pc.ConnConfig.Copy()
	other.Database = "postgres"
	if c, err = pgx.ConnectConfig(ctx, other); err != nil {
		return "", fmt.Errorf("connect to create a database: %w", err)
	}
	_, err = c.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	if err := errors.Join(err, c.Close(ctx)); err != nil {
		return "", fmt.Errorf("create a database: %w", err)
	}
	return name, nil
}
