package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// awaitLock waits until the backend has locked the lock file at its path.
func awaitLock(t *testing.T, b *Backend) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		if _, at := b.lockAtPath(); at {
			return
		}
	}
	t.Fatal("the lock file at the path is not locked")
}

// A server whose lock file was removed or replaced goes on, and the next start still knows what the store had reached.
func TestRemovedLockFile(t *testing.T) {
	for name, remove := range map[string]func(lock string) error{
		"removed": os.Remove,
		"replaced": func(lock string) error {
			return errors.Join(os.WriteFile(lock+"2", []byte("another"), 0o600), os.Rename(lock+"2", lock))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a")
			edit(t, path, "VACUUM INTO '"+backup+"'")
			writeKeys(t, b, "b", "c")
			if err := remove(path + ".lock"); err != nil {
				t.Fatal(err)
			}
			awaitLock(t, b)
			wantOpenError(t, path, backend.ErrInUse, "its process id is")
			writeKeys(t, b, "d")
			reached := revision(t, b)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			copyFile(t, backup, path)
			wantRestored(t, openAfterRestore(t, path), reached)
		})
	}
}

// A server that cannot lock the lock file at its path goes on if the database file is locked, and otherwise refuses
// writes.
func TestLockFileOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	writeKeys(t, b, "a")
	other, err := lockFile(path + ".other")
	if err := errors.Join(err, os.Rename(path+".other", path+".lock"), b.relock(), write(b, "b", nil)); err != nil {
		t.Fatal(err)
	}
	acknowledged := revision(t, b)
	b.content.mu.Lock()
	b.fileLocked = false
	b.content.mu.Unlock()
	began := time.Now()
	for err = write(b, "c", nil); err == nil && time.Since(began) < time.Minute; err = write(b, "c", nil) {
		acknowledged++
	}
	if !errors.Is(err, errLockLost) {
		t.Fatalf("write: %v", err)
	}
	if err := errors.Join(b.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if r := revision(t, openTest(t, Config{Path: path})); r != acknowledged {
		t.Errorf("the next start is at revision %d, acknowledged: %d", r, acknowledged)
	}
}

// An older copy in the place of the file and of the lock file shows at the next start if a server ran meanwhile.
func TestReplacedFileAndLock(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "other")
	closed(t, path, func(b *Backend) { writeKeys(t, b, "a") })
	closed(t, other, func(b *Backend) { writeKeys(t, b, "a") })
	for name, c := range map[string]struct {
		lock  string // to put in the place of the lock file
		shows bool
	}{
		"older": {path + ".lock", true}, "none": {"", true}, "another store's": {other + ".lock", false},
		"at once": {path + ".lock", true}, // the server stops before it has noticed
	} {
		t.Run(name, func(t *testing.T) {
			running := filepath.Join(t.TempDir(), "db")
			copyFile(t, path, running)
			copyFile(t, path, running+".new")
			b := openTest(t, Config{Path: running})
			writeKeys(t, b, "b", "c")
			reached := revision(t, b)
			err := os.Remove(running + ".lock")
			if c.lock != "" {
				copyFile(t, c.lock, running+".new.lock")
				err = os.Rename(running+".new.lock", running+".lock")
			}
			if err := errors.Join(err, os.Rename(running+".new", running)); err != nil {
				t.Fatal(err)
			}
			if !c.shows {
				reached = 0
			}
			if name != "at once" {
				b.watching.Wait() // it ends when it has noticed
				wantRestored(t, openAfterRestore(t, crashCopy(t, running)), reached)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			wantRestored(t, openAfterRestore(t, running), reached)
		})
	}
}
