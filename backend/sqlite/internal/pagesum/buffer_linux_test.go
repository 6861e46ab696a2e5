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

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/internal/testing/smalldisk"
)

// callsOf counts the reads (syscr) or writes (syscw) of files that f makes on this thread.
func callsOf(t *testing.T, which string, f func()) int {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func() (n int) {
		b, err := os.ReadFile("/proc/thread-self/io")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(b), which+": ")
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
	n := callsOf(t, "syscw", func() { run(t, db, "INSERT INTO t VALUES (randomblob(400000))") })
	if n < 400_000/65536 || n > 12 {
		t.Errorf("%d writes, want about one per 64 KiB", n)
	}
}

// TestPagesShareReads reads 300 pages, for each of which SQLite makes a call.
func TestPagesShareReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	run(t, open(t, path, ""), "PRAGMA journal_mode = WAL", generations, fillGenerations,
		"PRAGMA wal_checkpoint(TRUNCATE)")
	db := open(t, path, "")
	run(t, db, "SELECT 1 FROM t LIMIT 1")
	n := callsOf(t, "syscr", func() { run(t, db, "SELECT sum(v) FROM t") })
	if pages := generationRows / 3; n < pages/8 || n > pages/8+20 {
		t.Errorf("%d reads, want about one per 32 KiB", n)
	}
}

// TestFullDiskBeforeCommit fills the disk while a transaction has pages in the buffer, so that its next statement
// fails. The others are committed with all their pages, because the disk has space again by then.
func TestFullDiskBeforeCommit(t *testing.T) {
	smalldisk.Run(t, "4m", func(t *testing.T, dir string) {
		path := filepath.Join(dir, "db")
		db := open(t, path, "")
		run(t, db, "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "PRAGMA cache_size = 10",
			"CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "+
				"SELECT i + 1 FROM n WHERE i < 100) INSERT INTO t SELECT i, hex(randomblob(1500)) FROM n")
		// The rows to update are in the database, and the log has its header.
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)", "DELETE FROM t WHERE id = 100")
		before := mustRead(t, db)
		free := fillDisk(t, dir)
		run(t, db, "BEGIN", "UPDATE t SET v = hex(randomblob(1500)) WHERE id <= 18")
		// SQLite would roll back the whole transaction if a statement failed that cannot be undone alone.
		var full sqlite3.Error
		_, err := db.Exec("UPDATE t SET v = nullif(v, '') WHERE id <= 18")
		if !errors.As(err, &full) || full.Code != sqlite3.ErrFull {
			t.Fatalf("a statement that reads pages of the log: %v", err)
		}
		free()
		run(t, db, "COMMIT")
		reader := open(t, path, "")
		if mustRead(t, reader) == before {
			t.Error("the commit has changed nothing")
		}
		var sound string
		if err := reader.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
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
