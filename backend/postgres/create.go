package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CreateDatabase creates the database that the DSN names if the server has none of that name, and returns its name, or
// "" if it exists. It connects to the database postgres for that. Errors: [ErrDSN], those of reading the password's
// file, the server's.
func CreateDatabase(ctx context.Context, cfg Config) (created string, err error) {
	pc, err := poolConfig(cfg)
	if err != nil {
		return "", err
	}
	if cfg.PasswordFile != "" {
		if pc.ConnConfig.Password, err = readPassword(cfg.PasswordFile); err != nil {
			return "", err
		}
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
