package pagesum_test

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// descriptors returns how many descriptors of the file this process has open.
func descriptors(t *testing.T, path string) (n int) {
	t.Helper()
	const open = "/proc/self/fd"
	names, err := os.ReadDir(open)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if to, err := os.Readlink(filepath.Join(open, name.Name())); err == nil && to == path {
			n++
		}
	}
	return n
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	f, err := pagesum.OpenFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("abc"), 2); err != nil {
		t.Error(err)
	}
	if size, _, err := f.Stat(); size != 5 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	p := make([]byte, 4)
	if n, err := f.ReadAt(p, 3); n != 2 || !errors.Is(err, io.EOF) || string(p[:n]) != "bc" {
		t.Errorf("read %d bytes, %q, %v", n, p, err)
	}
	for name, want := range map[string]bool{path: true, path + ".none": false, filepath.Join(path, "below"): false} {
		if at, err := f.At(name); at != want || err != nil {
			t.Errorf("at %s: %v, %v", name, at, err)
		}
	}
	if err := errors.Join(f.Sync(), f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("sync of a closed file: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if _, err := pagesum.OpenFile(filepath.Join(path, "below"), os.O_RDONLY); err == nil {
		t.Error("opened a file below a file")
	}
	if n := descriptors(t, path); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// A descriptor stays open as long as SQLite has the database open, also after the file at the path was replaced.
func TestFileBesideConnections(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	db, err := sql.Open("sqlite3", "file:"+path+"?vfs="+pagesum.VFS)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE t (v)"); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t, path)
	for range 3 {
		f, err := pagesum.OpenFile(path, os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := descriptors(t, path); n != before+1 {
		t.Errorf("%d descriptors, want SQLite's %d and one more", n, before)
	}
	if err := os.Rename(path, filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite3", "file:"+path+"?vfs="+pagesum.VFS)
	if err != nil {
		t.Fatal(err)
	}
	for size := range 3 { // the last one is an empty database
		content := make([]byte, 2-size)
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(size)), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, strconv.Itoa(size)), path); err != nil {
			t.Fatal(err)
		}
		f, err := pagesum.OpenFile(path, os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := f.Stat(); got != int64(2-size) || err != nil {
			t.Errorf("size %d of a file of %d bytes, %v", got, 2-size, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := other.Ping(); err == nil {
		t.Error("opened the new file beside the one that it has replaced")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(other.Ping(), other.Close()); err != nil {
		t.Errorf("open the new file after the old one was closed: %v", err)
	}
	if n := descriptors(t, path) + descriptors(t, filepath.Join(dir, "old")); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}
