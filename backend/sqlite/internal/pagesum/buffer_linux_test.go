package pagesum_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/smalldisk"
)

// writesOf counts the writes to files that f makes on this thread.
func writesOf(t *testing.T, f func()) int {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func() (n int) {
		b, err := os.ReadFile("/proc/thread-self/io")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(b), "syscw: ")
		if _, err := fmt.Sscan(after, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	f()
	return count() - before
}

// TestFramesShareWrites commits 100 pages, which SQLite passes on in 200 pieces.
func TestFramesShareWrites(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"), "")
	run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "CREATE TABLE t (v BLOB)")
	n := writesOf(t, func() { run(t, db, "INSERT INTO t VALUES (randomblob(400000))") })
	if n < 400_000/65536 || n > 12 {
		t.Errorf("%d writes, want about one per 64 KiB", n)
	}
}

// TestRolledBackFramesDoNotReturn rolls back a transaction whose pages did not fit into the cache. The next one, of
// another connection, writes to the same place of the log.
func TestRolledBackFramesDoNotReturn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, other := open(t, path, ""), open(t, path, "")
	run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "PRAGMA cache_size = 10",
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", fill)
	run(t, other, "PRAGMA wal_autocheckpoint = 0")
	for pages := range 20 {
		// From one time to another, more of the spilled pages are in the buffer at the end.
		update := fmt.Sprintf("UPDATE t SET v = hex(randomblob(900)) WHERE id %% 50 = 1 AND id < %d", 500+50*pages)
		// A read of a page of the log would write the buffer to the file.
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)", "BEGIN", update, "ROLLBACK")
		run(t, other, update)
		want := mustRead(t, other)
		run(t, db, "INSERT INTO t VALUES (-1, NULL)", "DELETE FROM t WHERE id = -1")
		if got := mustRead(t, open(t, path, "")); got != want {
			t.Fatalf("%d pages: %q, want %q", 10+pages, got, want)
		}
	}
}

// TestFullDiskBeforeCommit fills the disk while a transaction has pages in the buffer, so that a read of such a page
// fails. The transaction is committed with all its pages or not at all, although the disk has space again by then.
func TestFullDiskBeforeCommit(t *testing.T) {
	smalldisk.Run(t, "4m", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "db")
		db := open(t, path, "")
		run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "PRAGMA cache_size = 10",
			"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "+
				"SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t SELECT i, hex(randomblob(1500)) FROM n")
		// The rows to update are in the database, and the log has its header.
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)", "DELETE FROM t WHERE id = 100")
		before := mustRead(t, db)
		free := fillDisk(t, dir)
		run(t, db, "BEGIN", "UPDATE t SET v = hex(randomblob(1500)) WHERE id <= 18")
		if _, err := read(db); err == nil {
			t.Fatal("a page that did not fit on the disk was read from it")
		}
		free()
		_, failed := db.Exec("COMMIT")
		after := mustRead(t, open(t, path, ""))
		if (failed == nil) == (after == before) {
			t.Errorf("the commit returned %v, the rows are the same: %t", failed, after == before)
		}
		var sound string
		if err := db.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
			t.Errorf("integrity check: %q, %v", sound, err)
		}
	})
}

// fillDisk fills the file system at dir with a file, which free removes.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.Remove(f.Name()), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
