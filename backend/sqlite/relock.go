package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sqlstore/sqlstore/backend"
)

// errLockLost is the reason why a backend refuses writes whose lock file was removed or replaced, and which cannot lock
// the one at its path.
var errLockLost = &backend.Refusal{
	Reason: "the lock file of the database that this server has open was removed or replaced, and another server may " +
		"have opened the database, so further writes are refused",
	Advice: "stop every other server that uses the database, then restart this one",
}

// lockAtPath returns the path of the lock file, and whether the file there is the backend's. If it cannot be examined,
// the answer is yes.
func (b *Backend) lockAtPath() (path string, at bool) {
	path = b.place() + ".lock"
	info, err := os.Stat(path)
	if err != nil {
		return path, !errors.Is(err, os.ErrNotExist)
	}
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	return path, os.SameFile(info, b.lockInfo)
}

// relock handles a lock file that was removed or replaced: it locks the file that is now at the path, or a new one, and
// copies the note. If another process holds that lock, the lock on the database file protects this one. Without that,
// the backend refuses further writes.
func (b *Backend) relock() error {
	path, at := b.lockAtPath()
	if at {
		return nil
	}
	lock, err := lockFile(path)
	if err == nil {
		err = b.adoptLock(lock)
	}
	switch {
	case err == nil:
		b.relocking.Worked()
		b.log.Warn("the lock file was removed or replaced; locked the one at its path", "path", path)
		return nil
	case b.fileLocked, !errors.Is(err, backend.ErrInUse): // perhaps another start holds it until it notices that lock
		if b.relocking.Failed() {
			b.log.Warn("the lock file was removed or replaced; cannot lock the one at its path yet", "path", path,
				"error", err)
		}
		return nil
	}
	err = fmt.Errorf("%w: %s: %w", errLockLost, b.path, err)
	if b.broken.CompareAndSwap(nil, &err) {
		b.file.Seal(true)
		b.log.Error("database refuses all further writes", "path", b.path, "error", err)
	}
	return err
}

// adoptLock replaces the backend's lock file with one that is locked, and copies the note to it.
func (b *Backend) adoptLock(lock *os.File) error {
	info, err := lock.Stat()
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	text := make([]byte, noteLength)
	n, err := b.lock.ReadAt(text, 0)
	if err = ignoreEnd(err); err == nil {
		_, err = lock.WriteAt(text[:n], 0)
	}
	if err != nil && !isFull(err) {
		return errors.Join(err, lock.Close())
	}
	former := b.lock
	b.lock, b.lockInfo = lock, info
	if b.formerLock == nil && b.place() != b.path {
		b.formerLock = former
		return nil
	}
	return former.Close()
}

// noteAtPath corrects the note in the lock file at the path if an operator has replaced that together with the database
// file. The next start then knows an older copy by it, and whether the log belongs to the former file.
func (b *Backend) noteAtPath() error {
	path, at := b.lockAtPath()
	if at || missing(filepath.Dir(path)) {
		return nil
	}
	lock, err := lockFile(path)
	if errors.Is(err, backend.ErrInUse) { // too late: a server runs on it
		return nil
	}
	if err != nil {
		return err
	}
	n, err := readNote(lock)
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	b.content.mu.Lock()
	defer b.content.mu.Unlock()
	switch {
	case b.logAt():
		n.owner = b.foreignOwner()
	case n.owner == "", n.owner == b.foreignOwner():
		n.owner = unknownPages
	}
	if n.file == "" {
		n.file = unknownState
	}
	if r := b.reached(); n.cluster == 0 || n.cluster == r.cluster && n.revision < r.revision {
		n.reached = r
	}
	return errors.Join(n.write(lock), lock.Close())
}
