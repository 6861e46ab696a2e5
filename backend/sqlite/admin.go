package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WithDatabase hands the file at path to f without migrating or checking it, for looking at its schema and changing it.
// No server may run on it. Errors: [backend.ErrInUse], those of the file system and of f.
func WithDatabase(ctx context.Context, path string, f func(ctx context.Context, db *sql.DB) error) error {
	path, err := filepath.Abs(path) // SQLite's URI takes no relative one
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("open database %s: %w", path, err)
	}
	db := sql.OpenDB(connector{path, "FULL"})
	return errors.Join(f(ctx, db), db.Close(), lock.Close())
}
