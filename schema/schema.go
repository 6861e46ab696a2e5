// Package schema embeds and runs the migrations of sqlstore's databases.
//
// The files are golang-migrate's: <dialect>/NNNN_name.up.sql. Each run is one database transaction that includes the
// new version, so a crash leaves either the old schema or the new one. It holds a lock on the version table, so that of
// several programs that start at once only one migrates. There is no way back to an older schema but a backup.
//
// The functions accept a *sql.DB of either database and detect which one it is by its driver.
//
// During a rolling upgrade, programs of two versions share a Postgres database. A schema names the oldest program that
// it supports. A program older than the database's schema, but not older than that, starts without migrating.
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

// migrations are those that this program knows. The tests replace them by those of a newer program.
var migrations fs.FS = files

// State is the state of a database's schema.
type State struct {
	// Version is the database's version, or 0 if it has no schema yet.
	Version uint
	// Newest is the version that this program migrates to.
	Newest uint
	// Serves is the newest version of the oldest program that can still run on the database; 0 if only programs that
	// know Version can.
	Serves uint
	// Dirty means that another tool left a migration half done.
	Dirty bool
	// Kine means that the tables would be created beside kine's.
	Kine bool
}

// Usable reports whether this program can run on the database after migrating it as far as it can.
func (s State) Usable() bool {
	return !s.Dirty && !s.Kine && (s.Version <= s.Newest || s.Serves != 0 && s.Serves <= s.Newest)
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
	if err == nil && tables == 0 && d.hasKine != "" {
		var kine int
		err = db.QueryRowContext(ctx, d.hasKine).Scan(&kine)
		s.Kine = kine > 0
	}
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

// Up brings a database to the newest version, and does nothing if it is up to date. It refuses a database that is newer
// ([ErrNewer]), unless that supports this program, dirty ([ErrDirty]), or kine's ([ErrKine]). Several processes can
// call it at once. If it cannot get a lock, the error names the holders ([ErrLocked]). log receives the start, each
// step and the end of a migration of data; it may be nil.
func Up(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	s, err := check(ctx, db)
	if err != nil || s.Version >= s.Newest {
		return err
	}
	if log == nil || s.Version == 0 { // migrating a new database takes no time
		log = slog.New(slog.DiscardHandler)
	}
	began := time.Now()
	log.Info("schema migration started", "from", s.Version, "to", s.Newest)
	if err = retryLocked(ctx, db, log); err == nil {
		log.Info("schema migration done", "version", s.Newest, "took", time.Since(began))
		return nil
	}
	log.Warn("schema migration failed, the schema is unchanged", "error", err, "took", time.Since(began))
	// A newer program may have been faster, and the migrations of this one do not know its version.
	if s, again := check(ctx, db); again != nil || s.Version < s.Newest {
		return err
	}
	return nil
}

func check(ctx context.Context, db *sql.DB) (State, error) {
	s, err := Status(ctx, db)
	switch {
	case err != nil:
		return s, fmt.Errorf("read the schema's version: %w", err)
	case s.Kine:
		return s, ErrKine
	case s.Dirty:
		return s, fmt.Errorf("%w at version %d: restore a backup, or check the tables and "+
			"set the version that matches them with: %s 'UPDATE %s SET version = N, dirty = false'",
			ErrDirty, s.Version, dialectOf(db).repair, versionTable)
	case !s.Usable():
		return s, fmt.Errorf("%w: the database is at version %d, this program knows up to %d", ErrNewer, s.Version,
			s.Newest)
	}
	return s, nil
}

func run(ctx context.Context, db *sql.DB, log *slog.Logger) (err error) {
	d := dialectOf(db)
	src, err := iofs.New(migrations, d.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	m, err := migrate.NewWithInstance("embedded", src, d.name, &driver{ctx: ctx, db: db, d: d, log: log})
	if err != nil {
		return err
	}
	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// newest returns the newest of the embedded migrations of a dialect.
func newest(dialect string) (uint, error) {
	entries, err := fs.ReadDir(migrations, dialect)
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
