package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// lockFile acquires the lock that keeps other processes away from the database. The kernel releases it when the process
// ends, however it ends, so a leftover file blocks nobody. The file is never removed, because another process may be
// about to lock it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		// Not even a reader does without: it applies the log and migrates the schema, and a file that is read-only
		// here may be written through another mount.
		return nil, fmt.Errorf("the directory must be writable: %w; copy the database, and its -wal if there is one, "+
			"to a directory that is, and open the copy", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = backend.ErrInUse
		if id := holder(f); id > 0 {
			err = fmt.Errorf("%w (its process id is %d)", err, id)
		}
	case err != nil:
		err = fmt.Errorf("lock %s: %w", path, err)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// lockDatabase opens the database file and locks it. This lock follows the file: it still keeps other servers away
// after the lock file was removed, and from a hard link to the file. all is false where the system has no such locks.
func lockDatabase(path string, flags int) (f *pagesum.File, all bool, err error) {
	f, err = pagesum.OpenFile(path, flags)
	if err != nil {
		return nil, false, fmt.Errorf("the file must be readable and writable: %w", err)
	}
	if all, err = f.Lock(); err != nil {
		err = fmt.Errorf("%w (its lock file was removed, or the file has another name)", backend.ErrInUse)
		return nil, false, errors.Join(err, f.Close())
	}
	return f, all, nil
}
