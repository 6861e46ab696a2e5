// Package schema holds the migrations of sqlstore's databases, embedded, and runs them.
//
// The files are golang-migrate's: <dialect>/NNNN_name.up.sql and .down.sql. Each run of migrations is one database
// transaction together with the version that it leads to, so that a crash leaves either the old schema or the new one.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/sqlstore/sqlstore/backend"
)

//go:embed sqlite/*.sql
var files embed.FS

// State is what a database says about its schema.
type State struct {
	// Version is the database's, 0 when it has no schema yet.
	Version uint
	// Newest is the version that this program would migrate to.
	Newest uint
	// Dirty says that another tool left a migration half-way.
	Dirty bool
}

// Status reads the state of a SQLite database without changing it.
func Status(ctx context.Context, db *sql.DB) (State, error) {
	newest, err := newest("sqlite")
	if err != nil {
		return State{}, err
	}
	s := State{Newest: newest}
	var has bool
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '"+versionTable+"'").Scan(&has)
	if err != nil || !has {
		return s, err
	}
	err = db.QueryRowContext(ctx, "SELECT version, dirty FROM "+versionTable).Scan(&s.Version, &s.Dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	return s, err
}

// Up brings a SQLite database to the newest version. It refuses one that is newer ([backend.ErrSchemaNewer]) or dirty
// ([backend.ErrSchemaDirty]) and does nothing to one that is up to date.
func Up(ctx context.Context, db *sql.DB) error {
	s, err := check(ctx, db)
	if err != nil || s.Version == s.Newest {
		return err
	}
	return run(ctx, db, func(m *migrate.Migrate) error { return m.Up() })
}

// Down takes a SQLite database steps versions back; data that the older schema has no place for is lost, all of it at
// version 0. It refuses what [Up] refuses.
func Down(ctx context.Context, db *sql.DB, steps int) error {
	s, err := check(ctx, db)
	if err != nil {
		return err
	}
	if steps <= 0 || uint(steps) > s.Version {
		return fmt.Errorf("schema is at version %d: cannot go back %d steps", s.Version, steps)
	}
	return run(ctx, db, func(m *migrate.Migrate) error { return m.Steps(-steps) })
}

func check(ctx context.Context, db *sql.DB) (State, error) {
	s, err := Status(ctx, db)
	switch {
	case err != nil:
		return s, fmt.Errorf("read the schema's version: %w", err)
	case s.Dirty:
		return s, fmt.Errorf("%w at version %d: restore a backup, or look at the tables, then tell the version that they have with: "+
			"sqlite3 FILE 'UPDATE %s SET version = N, dirty = 0'", backend.ErrSchemaDirty, s.Version, versionTable)
	case s.Version > s.Newest:
		return s, fmt.Errorf("%w: the database is at version %d, this program knows up to %d", backend.ErrSchemaNewer, s.Version, s.Newest)
	}
	return s, nil
}

func run(ctx context.Context, db *sql.DB, do func(*migrate.Migrate) error) (err error) {
	src, err := iofs.New(files, "sqlite")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	m, err := migrate.NewWithInstance("embedded", src, "sqlite", &sqliteDriver{ctx: ctx, db: db})
	if err != nil {
		return err
	}
	if err := do(m); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// newest finds the greatest version among the embedded migrations of a dialect.
func newest(dialect string) (uint, error) {
	entries, err := fs.ReadDir(files, dialect)
	if err != nil {
		return 0, err
	}
	var n uint
	for _, e := range entries {
		m, err := source.DefaultParse(e.Name())
		if err != nil {
			return 0, fmt.Errorf("%s: %w", e.Name(), err)
		}
		n = max(n, m.Version)
	}
	return n, nil
}
