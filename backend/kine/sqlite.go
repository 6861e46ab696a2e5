package kine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
)

// sqlite is the path of a SQLite file.
type sqlite string

func parseSQLite(raw string) (dialect, error) {
	u, err := parseURL(raw) // kine's parameters after the path do not matter for reading
	if err != nil {
		return nil, err
	}
	if u.Host != "" || u.Path == "" {
		return nil, fmt.Errorf("name the SQLite file by its absolute path: %ssqlite:///path", Prefix)
	}
	return sqlite(u.Path), nil
}

func (s sqlite) reader() (*sql.DB, error) {
	info, err := os.Stat(string(s))
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; k3s' file in it is server/db/state.db", s)
	}
	return s.open("mode=ro&_query_only=1&_busy_timeout=30000")
}

func (s sqlite) open(parameters string) (*sql.DB, error) {
	path, err := filepath.Abs(string(s)) // a URI accepts nothing else
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: path, RawQuery: parameters}).String())
}

// snapshot begins with the first read.
func (sqlite) snapshot(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	return db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
}

func (s sqlite) explain(err error) error {
	e, ok := errors.AsType[sqlite3.Error](err)
	switch {
	case !ok:
		return err
	case e.Code == sqlite3.ErrCantOpen:
		return fmt.Errorf("%w: %w: a file in WAL mode can only be read if SQLite may create files beside it: copy %s, "+
			"and its -wal if there is one, to a directory that you may write to", backend.ErrSource, err, s)
	case e.Code == sqlite3.ErrNotADB, strings.Contains(e.Error(), "no such table"): // which has no code of its own
		return fmt.Errorf("%w: %s: %w", backend.ErrSource, s, err)
	case e.Code == sqlite3.ErrCorrupt:
		return fmt.Errorf("%w: %s: %w", backend.ErrDamagedSource, s, err)
	}
	return err
}

func (sqlite) same(name string) string { return name }

func (sqlite) fits(string) error { return nil }

func (sqlite) parameter(int) string { return "?" }

func (sqlite) link() string { return linkFrom }

// linkFrom is link for databases with UPDATE FROM.
const linkFrom = `UPDATE kine AS k SET old_value = p.value, create_revision = ` + linkedCreate + ` FROM kine AS p
	WHERE p.id = k.prev_revision AND k.name <> 'compact_rev_key'`

// linkedCreate is the create revision of row k, which supersedes row p.
const linkedCreate = `CASE WHEN k.deleted = 0 THEN k.create_revision
	ELSE COALESCE(NULLIF(p.create_revision, 0), p.id) END`

// sqliteTable and sqliteIndexes are what kine 0.17 makes.
const sqliteTable = `CREATE TABLE kine (
	id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, created INTEGER, deleted INTEGER, create_revision INTEGER,
	prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB)`

var sqliteIndexes = []string{
	`CREATE INDEX kine_name_index ON kine (name)`,
	`CREATE INDEX kine_name_id_index ON kine (name, id)`,
	`CREATE INDEX kine_id_deleted_index ON kine (id, deleted)`,
	`CREATE INDEX kine_prev_revision_index ON kine (prev_revision)`,
	`CREATE UNIQUE INDEX kine_name_prev_revision_uindex ON kine (name, prev_revision)`,
	`CREATE INDEX kine_id_compact_rev_key_with_prev_revision_index ON kine (id, name, prev_revision)
		WHERE name != 'compact_rev_key' AND prev_revision != 0`,
}

// write fills a file beside the target and renames it. Only its owner may read it: it holds all values.
func (s sqlite) write(ctx context.Context, f func(*sql.Tx) error) error {
	for _, suffix := range []string{"", "-wal", "-journal"} { // a log would be applied to the new file
		if _, err := os.Lstat(string(s) + suffix); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: move %s%s away", ErrNotEmpty, s, suffix)
		}
	}
	partial := s + ".partial"
	if err := os.Remove(string(partial)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(string(partial), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = file.Close(); err == nil {
		err = partial.fill(ctx, f)
	}
	if err == nil {
		err = os.Rename(string(partial), string(s))
	}
	if err == nil {
		err = syncFile(filepath.Dir(string(s)))
	}
	if err == nil {
		return nil
	}
	if isFull(err) {
		err = fmt.Errorf("%w: free space on the disk of %s, and run the same command again", err, s)
	}
	if left := os.Remove(string(partial)); left != nil && !errors.Is(left, os.ErrNotExist) {
		err = fmt.Errorf("%w (and remove %s, which holds data of the store: %w)", err, partial, left)
	}
	return err
}

func isFull(err error) bool {
	e, ok := errors.AsType[sqlite3.Error](err)
	return ok && e.Code == sqlite3.ErrFull || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// fill writes a file, which is of no use before its end, and so needs no journal.
func (s sqlite) fill(ctx context.Context, f func(*sql.Tx) error) error {
	db, err := s.open("mode=rw&_journal_mode=OFF&_synchronous=OFF")
	if err != nil {
		return err
	}
	if err := errors.Join(inTransaction(ctx, db, []string{sqliteTable}, f, sqliteIndexes...), db.Close()); err != nil {
		return err
	}
	return syncFile(string(s))
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// inTransaction runs statements before and after f.
func inTransaction(
	ctx context.Context, db *sql.DB, before []string, f func(*sql.Tx) error, after ...string,
) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	err = execute(ctx, tx, before)
	if err == nil {
		err = f(tx)
	}
	if err == nil {
		err = execute(ctx, tx, after)
	}
	if err != nil {
		_ = tx.Rollback() // the first error says what is wrong; a full disk has already ended the transaction
		return err
	}
	return tx.Commit()
}

func execute(ctx context.Context, tx *sql.Tx, statements []string) error {
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
