// Package schema holds the migrations of sqlstore's databases, embedded, and runs them.
//
// The files are golang-migrate's: <dialect>/NNNN_name.up.sql and .down.sql. Each run of migrations is one database
// transaction together with the version that it leads to, so that a crash leaves either the old schema or the new one,
// and it holds a lock on the table of the version, so that of several programs that start at once one migrates.
//
// The functions take a *sql.DB of either database and tell by its driver which one it is.
//
// Programs of two versions can share a Postgres database while replicas are rolled: a schema names the oldest program
// that it serves, and a program whose own schema is older than the database's, but not older than that, starts without
// migrating.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// State is what a database says about its schema.
type State struct {
	// Version is the database's, 0 when it has no schema yet.
	Version uint
	// Newest is the version that this program would migrate to.
	Newest uint
	// Serves is the newest version of the oldest program that can still run on the database; 0 when only programs that
	// know Version can.
	Serves uint
	// Dirty says that another tool left a migration half-way.
	Dirty bool
}

// Usable says whether this program can run on the database once it has migrated it as far as it knows how to.
func (s State) Usable() bool {
	return !s.Dirty && (s.Version <= s.Newest || s.Serves != 0 && s.Serves <= s.Newest)
}

// Status reads the state of a database without changing it.
func Status(ctx context.Context, db *sql.DB) (State, error) {
	d := dialectOf(db)
	newest, err := newest(d.name)
	if err != nil {
		return State{}, err
	}
	s := State{Newest: newest}
	var tables int
	err = db.QueryRowContext(ctx, d.hasTable).Scan(&tables)
	if err != nil || tables == 0 {
		return s, err
	}
	err = db.QueryRowContext(ctx, "SELECT version, dirty FROM "+versionTable).Scan(&s.Version, &s.Dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	if err != nil || s.Version == 0 || d.oldestProgram == "" {
		return s, err
	}
	err = db.QueryRowContext(ctx, d.oldestProgram).Scan(&s.Serves)
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	return s, err
}

// Up brings a database to the newest version. It refuses one that is newer ([ErrNewer]), unless that serves this
// program, or dirty ([ErrDirty]) and does nothing to one that is up to date. Several processes can call it at once. It
// tells who holds a lock that it does not get ([ErrLocked]). log takes the beginning, each step and the end of a
// migration of data; it may be nil.
func Up(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	s, err := check(ctx, db)
	if err != nil || s.Version >= s.Newest {
		return err
	}
	if log == nil || s.Version == 0 { // a new database takes no time
		log = slog.New(slog.DiscardHandler)
	}
	began := time.Now()
	log.Info("schema migration begins", "from", s.Version, "to", s.Newest)
	if err = patiently(ctx, db, log, func(m *migrate.Migrate) error { return m.Up() }); err == nil {
		log.Info("schema migration is done", "version", s.Newest, "took", time.Since(began))
		return nil
	}
	log.Warn("schema migration failed, and the schema is as it was", "error", err, "took", time.Since(began))
	// A newer program may have been faster, and its version means nothing to the migrations of this one.
	if s, again := check(ctx, db); again != nil || s.Version < s.Newest {
		return err
	}
	return nil
}

// Down takes a database steps versions back; data that the older schema has no place for is lost, all of it at version
// 0. It refuses a database that is newer than this program or dirty.
func Down(ctx context.Context, db *sql.DB, steps int) error {
	s, err := check(ctx, db)
	if err == nil && s.Version > s.Newest {
		err = newer(s)
	}
	if err != nil {
		return err
	}
	if steps <= 0 || uint(steps) > s.Version {
		return fmt.Errorf("schema is at version %d: cannot go back %d steps", s.Version, steps)
	}
	return patiently(ctx, db, slog.New(slog.DiscardHandler), func(m *migrate.Migrate) error { return m.Steps(-steps) })
}

func check(ctx context.Context, db *sql.DB) (State, error) {
	s, err := Status(ctx, db)
	switch {
	case err != nil:
		return s, fmt.Errorf("read the schema's version: %w", err)
	case s.Dirty:
		return s, fmt.Errorf("%w at version %d: restore a backup, or look at the tables, "+
			"then tell the version that they have with: %s 'UPDATE %s SET version = N, dirty = false'",
			ErrDirty, s.Version, dialectOf(db).mend, versionTable)
	case !s.Usable():
		return s, newer(s)
	}
	return s, nil
}

func newer(s State) error {
	return fmt.Errorf("%w: the database is at version %d, this program knows up to %d", ErrNewer,
		s.Version, s.Newest)
}

func run(ctx context.Context, db *sql.DB, log *slog.Logger, do func(*migrate.Migrate) error) (err error) {
	d := dialectOf(db)
	src, err := iofs.New(files, d.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	m, err := migrate.NewWithInstance("embedded", src, d.name, &driver{ctx: ctx, db: db, d: d, log: log})
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
