package sqlite

import (
	"errors"
	"fmt"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// Errors at startup.
var (
	// ErrNotSQLStore is returned for a file that is not a SQLite database, or not one that sqlstore created.
	ErrNotSQLStore = errors.New("file is not a database of sqlstore; choose another path")
	// ErrCorrupt is returned for a damaged database. It wraps [backend.ErrCorrupt].
	ErrCorrupt = fmt.Errorf("%w: the file is damaged; restore a backup (see also: sqlite3 FILE .recover)",
		backend.ErrCorrupt)
)

// translate wraps a driver error with the sentinel that callers check. It must not be used for the error of a COMMIT.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	var meaning error
	switch e.Code {
	case sqlite3.ErrIoErr:
		meaning = backend.ErrUnavailable
		if isDamagedPage(err) {
			meaning = fmt.Errorf("%w: %w", backend.ErrUnavailable, errDamagedPage)
		}
	case sqlite3.ErrFull:
		meaning = backend.ErrNoSpace
	case sqlite3.ErrTooBig, sqlite3.ErrConstraint, sqlite3.ErrMismatch:
		meaning = backend.ErrRejected
	case sqlite3.ErrCorrupt:
		meaning = fmt.Errorf("%w: %w", backend.ErrUnavailable, ErrCorrupt)
	case sqlite3.ErrNotADB:
		meaning = ErrNotSQLStore
	default:
		meaning = backend.ErrUnavailable
	}
	return fmt.Errorf("%s: %w: %w", doing, meaning, err)
}

// errDamagedPage is returned for a page that does not match its checksum.
var errDamagedPage = fmt.Errorf("%w: a page of the file does not match its checksum; list the damage with 'sqlstore "+
	"check', then restore a backup (see also: sqlite3 FILE .recover); if another program has written to the file, "+
	"stop the server, touch the file and start again", backend.ErrCorrupt)

// isDamagedPage reports whether err comes from reading such a page.
func isDamagedPage(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.ExtendedCode == pagesum.ErrCode
}

// isCode reports whether err is a driver error with that primary code.
func isCode(err error, code sqlite3.ErrNo) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.Code == code
}

// syncError translates the error of a statement that may have failed to sync the database. Only a failed sync puts
// committed data in doubt.
func (b *Backend) syncError(doing string, err error) error {
	var e sqlite3.Error
	if errors.As(err, &e) && (e.ExtendedCode == sqlite3.ErrIoErrFsync || e.ExtendedCode == sqlite3.ErrIoErrDirFsync) {
		return b.markBroken(doing, err)
	}
	return translate(doing, err)
}
