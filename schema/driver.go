package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5/pgconn"
)

const versionTable = "schema_migrations"

// lockTries limits the attempts to lock a table that another process created first.
const lockTries = 10

// driver is a golang-migrate driver that runs everything between Lock and Unlock in one transaction, whose lock on the
// version table keeps others out. The drivers of golang-migrate commit the migration and its version separately, so
// that a crash can leave a database dirty. The one for Postgres takes an advisory lock, which does not survive a pooler
// in transaction mode.
type driver struct {
	ctx    context.Context
	db     *sql.DB
	d      *dialect
	log    *slog.Logger
	conn   *sql.Conn
	failed bool
}

var _ database.Driver = (*driver)(nil)

func (d *driver) Open(string) (database.Driver, error) {
	return nil, errors.New("schema: the driver only works on an open database")
}

func (d *driver) Close() error { return nil }

func (d *driver) Lock() (err error) {
	if d.conn != nil {
		return database.ErrLocked
	}
	for range lockTries {
		if err = d.tryLock(); !overtaken(err) {
			break
		}
	}
	return err
}

func (d *driver) tryLock() error {
	conn, err := d.db.Conn(d.ctx)
	if err != nil {
		return err
	}
	d.conn, d.failed = conn, false
	if err := d.exec(d.d.begin); err != nil {
		d.conn = nil
		return errors.Join(err, conn.Close())
	}
	for _, q := range d.d.lock {
		if err := d.exec(q); err != nil {
			return errors.Join(err, d.Unlock())
		}
	}
	return nil
}

// overtaken reports whether another process created the version table at the same time, which CREATE TABLE IF NOT
// EXISTS does not expect in Postgres, or whether the server requests a retry.
func overtaken(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	// unique_violation, duplicate_table and _object, serialization_failure, deadlock
	case "23505", "42P07", "42710", "40001", "40P01":
		return true
	}
	return false
}

func (d *driver) Unlock() error {
	if d.conn == nil {
		return database.ErrNotLocked
	}
	end := "COMMIT"
	if d.failed {
		end = "ROLLBACK"
	}
	err := errors.Join(d.exec(end), d.conn.Close())
	d.conn = nil
	return err
}

func (d *driver) Run(migration io.Reader) error {
	b, err := io.ReadAll(migration)
	if err != nil {
		d.failed = true
		return err
	}
	return d.exec(string(b))
}

func (d *driver) SetVersion(version int, dirty bool) error {
	if err := d.exec("DELETE FROM " + versionTable); err != nil {
		return err
	}
	if err := d.exec(fmt.Sprintf("INSERT INTO %s (version, dirty) VALUES (%d, %t)", versionTable, version,
		dirty)); err != nil {
		return err
	}
	if !dirty {
		d.log.Info("schema migration step done", "version", version)
	}
	return nil
}

func (d *driver) Version() (int, bool, error) {
	var version int
	var dirty bool
	err := d.conn.QueryRowContext(d.ctx, "SELECT version, dirty FROM "+versionTable).Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

func (d *driver) Drop() error { return errors.New("schema: dropping a database is not supported") }

func (d *driver) exec(query string) error {
	_, err := d.conn.ExecContext(d.ctx, query)
	d.failed = d.failed || err != nil
	return err
}
