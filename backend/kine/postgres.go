package kine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlstore/sqlstore/backend"
)

// postgres is how to connect to a database of Postgres.
type postgres struct{ config *pgx.ConnConfig }

func parsePostgres(raw string) (dialect, error) {
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/" + defaultDatabase
	}
	u.Path = strings.ToLower(u.Path) // as kine does
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, err // in which pgx hides the password
	}
	// A pooler in transaction mode knows no prepared statements.
	config.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	return postgres{config}, nil
}

func (p postgres) reader() (*sql.DB, error) { return sql.OpenDB(stdlib.GetConnector(*p.config)), nil }

// postgresLimits lift limits that an administrator may have set for other programs. The transaction is idle while the
// target works.
var postgresLimits = []string{
	`SET LOCAL statement_timeout = 0`, `SET LOCAL idle_in_transaction_session_timeout = 0`,
}

func (postgres) snapshot(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if err := execute(ctx, tx, postgresLimits); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

func (p postgres) explain(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return err
	case slices.Contains([]string{"3D000", "28000", "28P01", "42501", "42P01"}, e.Code): // no access, or no table
		return fmt.Errorf("%w: %w", backend.ErrSource, err)
	case strings.HasPrefix(e.Code, "XX"):
		return fmt.Errorf("%w: %w", backend.ErrDamagedSource, err)
	}
	return err
}

func (postgres) same(name string) string { return name }

func (postgres) fits(name string) error {
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return errors.New("only names in UTF-8, without NUL, can be stored in Postgres")
	}
	return nil
}

func (postgres) parameter(n int) string { return fmt.Sprint("$", n) }

func (postgres) link() string { return linkFrom }

// postgresTable and postgresIndexes are what kine 0.17 makes.
var postgresTable = []string{
	`CREATE TABLE IF NOT EXISTS kine (
		id BIGSERIAL PRIMARY KEY, name TEXT COLLATE "C", created INTEGER, deleted INTEGER, create_revision BIGINT,
		prev_revision BIGINT, lease INTEGER, value BYTEA, old_value BYTEA)`,
	`LOCK TABLE kine`,
}

var postgresIndexes = []string{
	`CREATE INDEX IF NOT EXISTS kine_name_index ON kine (name)`,
	`CREATE INDEX IF NOT EXISTS kine_name_id_index ON kine (name, id)`,
	`CREATE INDEX IF NOT EXISTS kine_id_deleted_index ON kine (id, deleted)`,
	`CREATE INDEX IF NOT EXISTS kine_prev_revision_index ON kine (prev_revision)`,
	`CREATE UNIQUE INDEX IF NOT EXISTS kine_name_prev_revision_uindex ON kine (name, prev_revision)`,
	`CREATE INDEX IF NOT EXISTS kine_list_query_index ON kine (name, id DESC, deleted)`,
	`SELECT setval(pg_get_serial_sequence('kine', 'id'), MAX(id)) FROM kine`,
}

func (p postgres) write(ctx context.Context, f func(*sql.Tx) error) error {
	db, err := p.reader()
	if err != nil {
		return err
	}
	defer db.Close()
	return inTransaction(ctx, db, slices.Concat(postgresLimits, postgresTable), func(tx *sql.Tx) error {
		if err := checkEmpty(ctx, tx); err != nil {
			return err
		}
		return f(tx)
	}, postgresIndexes...)
}

// checkEmpty returns an error if the table has rows.
func checkEmpty(ctx context.Context, tx *sql.Tx) error {
	var rows int64
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM kine`).Scan(&rows); err != nil {
		return err
	}
	if rows > 0 {
		return fmt.Errorf("%w: its table kine has %d rows: use another database, or drop the table", ErrNotEmpty, rows)
	}
	return nil
}
