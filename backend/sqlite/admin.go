package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// errUndecidedLog is returned to tools for a file that another program has replaced or changed while a server had it
// open, beside a log that may be that server's.
var errUndecidedLog = errors.New("another program replaced or changed the database file while a server had it open, " +
	"and the write-ahead log beside it may be that server's: start the server once, which decides that, then run " +
	"this again")

// WithDatabase opens the file at path and passes it to f without migrating or checking it, so that f can inspect and
// change its schema. No server may be using the file. Errors: [backend.ErrInUse], file system errors and those of f.
func WithDatabase(ctx context.Context, path string, f func(ctx context.Context, db *sql.DB) error) (err error) {
	path, err = filepath.Abs(path) // SQLite's URI does not accept a relative path
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	provideTempDir(filepath.Dir(path))
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	if err := refuseForeign(path); err != nil {
		return fmt.Errorf("open database %s: %w", path, err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("open database %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	file, _, err := lockDatabase(path, os.O_RDWR)
	if err != nil {
		return fmt.Errorf("open database %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	n, err := readNote(lock)
	var log logState
	if err == nil {
		log, err = checkLog(ctx, path, n.owner == ownPages, true)
	}
	if err == nil && log.filled && n.foreign() {
		err = errUndecidedLog
	}
	if err != nil {
		return fmt.Errorf("open database %s: %w", path, err)
	}
	own := n.writtenHere(path, log.filled) && log.belongs == log.filled
	db := sql.OpenDB(connector{writableDSN(path, own), "FULL"})
	return errors.Join(f(ctx, db), db.Close())
}
