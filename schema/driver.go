package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
)

const versionTable = "schema_migrations"

// sqliteDriver is a golang-migrate driver that puts everything between Lock and Unlock into one transaction. The one that
// comes with golang-migrate commits the migration and its version apart, and so can leave a database dirty by a crash.
type sqliteDriver struct {
	ctx    context.Context
	db     *sql.DB
	conn   *sql.Conn
	failed bool
}

var _ database.Driver = (*sqliteDriver)(nil)

func (d *sqliteDriver) Open(string) (database.Driver, error) {
	return nil, errors.New("schema: the driver is made from an open database only")
}

func (d *sqliteDriver) Close() error { return nil }

func (d *sqliteDriver) Lock() error {
	if d.conn != nil {
		return database.ErrLocked
	}
	conn, err := d.db.Conn(d.ctx)
	if err != nil {
		return err
	}
	d.conn, d.failed = conn, false
	if err := d.exec("BEGIN IMMEDIATE"); err != nil {
		d.conn = nil
		return errors.Join(err, conn.Close())
	}
	err = d.exec("CREATE TABLE IF NOT EXISTS " + versionTable + " (version INTEGER NOT NULL PRIMARY KEY, dirty INTEGER NOT NULL)")
	if err != nil {
		return errors.Join(err, d.Unlock())
	}
	return nil
}

func (d *sqliteDriver) Unlock() error {
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

func (d *sqliteDriver) Run(migration io.Reader) error {
	b, err := io.ReadAll(migration)
	if err != nil {
		d.failed = true
		return err
	}
	return d.exec(string(b))
}

func (d *sqliteDriver) SetVersion(version int, dirty bool) error {
	if err := d.exec("DELETE FROM " + versionTable); err != nil || version == database.NilVersion {
		return err
	}
	return d.exec(fmt.Sprintf("INSERT INTO %s (version, dirty) VALUES (%d, %t)", versionTable, version, dirty))
}

func (d *sqliteDriver) Version() (int, bool, error) {
	var version int
	var dirty bool
	err := d.conn.QueryRowContext(d.ctx, "SELECT version, dirty FROM "+versionTable).Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

func (d *sqliteDriver) Drop() error { return errors.New("schema: dropping a database is not offered") }

func (d *sqliteDriver) exec(query string) error {
	_, err := d.conn.ExecContext(d.ctx, query)
	d.failed = d.failed || err != nil
	return err
}
