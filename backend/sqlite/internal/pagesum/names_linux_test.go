package pagesum_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// A file that is opened and closed by another name leaves SQLite's locks on it, and its own.
func TestFileOfAnotherName(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "db"), filepath.Join(dir, "link")
	f, err := pagesum.OpenFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Lock(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+path+"?vfs="+pagesum.VFS)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA journal_mode = WAL; CREATE TABLE t (v)"); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	probe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO t VALUES (1)"); err != nil { // SQLite locks the file again if that was lost
		t.Fatal(err)
	}
	locked := func() bool {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 0x40000000, Len: 512} // the bytes that SQLite locks
		if err := unix.FcntlFlock(probe.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
			t.Fatal(err)
		}
		return lock.Type != unix.F_UNLCK
	}
	before := descriptors(t, path) + descriptors(t, link)
	for _, flags := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR} {
		other, err := pagesum.OpenFile(link, flags)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Lock(); flags == os.O_RDWR && !errors.Is(err, pagesum.ErrLocked) {
			t.Errorf("locked it twice: %v", err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if !locked() {
			t.Fatal("SQLite's locks are lost")
		}
	}
	if n := descriptors(t, path) + descriptors(t, link); n != before+1 {
		t.Errorf("%d descriptors, want the %d before and a read-only one", n, before)
	}
	if err := errors.Join(f.Close(), db.Close(), probe.Close()); err != nil {
		t.Error(err)
	}
	if n := descriptors(t, path) + descriptors(t, link); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}
