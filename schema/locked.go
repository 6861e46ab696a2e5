package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// migrationTries is how often a migration tries to get its locks, and migrationPause the time for others in
	// between.
	migrationTries = 10
	migrationPause = time.Second
)

// isLockConflict reports whether a migration ended because others hold its locks: it waited too long for one, or the
// server ended it to resolve a deadlock, for example with pg_dump, which locks the tables in another order.
func isLockConflict(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "55P03" || e.Code == "40P01") // lock_not_available, deadlock_detected
}

// retryLocked retries a migration until it gets its locks. If it never does, the error names who holds them.
func retryLocked(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	var locked error
	for try := 1; ; try++ {
		err := run(ctx, db, log)
		switch {
		case isLockConflict(err):
			locked = fmt.Errorf("%w: %s; wait until they finish, or end them (SELECT "+
				"pg_terminate_backend(PROCESS)), "+
				"then start again: %w", ErrLocked, lockHoldersOf(ctx, db), err)
		case err != nil && ctx.Err() != nil && locked != nil:
			return locked
		default:
			return err
		}
		if try == migrationTries {
			return locked
		}
		log.Warn("schema migration is waiting for a lock", "try", try, "of", migrationTries, "error", locked)
		select {
		case <-time.After(migrationPause):
		case <-ctx.Done():
			return locked
		}
	}
}

// lockHoldersOf describes the holders of the locks.
func lockHoldersOf(ctx context.Context, db *sql.DB) string {
	rows, err := db.QueryContext(ctx, dialectOf(db).holders)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var one string
		if rows.Scan(&one) == nil {
			all = append(all, one)
		}
	}
	switch {
	case rows.Err() != nil:
		return rows.Err().Error()
	case len(all) == 0:
		return "nobody any more"
	}
	return strings.Join(all, "; ")
}
