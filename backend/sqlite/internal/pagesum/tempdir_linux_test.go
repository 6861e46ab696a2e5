package pagesum_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// openIn counts the process's open files in dir, also those that are deleted.
func openIn(t *testing.T, dir string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target, err := os.Readlink(f); err == nil && strings.HasPrefix(target, dir) {
			n++
		}
	}
	return n
}

func TestUseTempDir(t *testing.T) {
	var dirs []string
	for range 2 {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	t.Cleanup(func() { pagesum.UseTempDir("") })
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "db")+"?vfs="+pagesum.VFS)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for i, dir := range dirs {
		pagesum.UseTempDir(dir)
		if _, err := db.Exec("PRAGMA temp.cache_size = 1; CREATE TEMP TABLE t AS WITH RECURSIVE n (i) AS (SELECT 1 " +
			"UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i, randomblob(1000) FROM n"); err != nil {
			t.Fatal(err)
		}
		if openIn(t, dir) == 0 {
			t.Errorf("no temporary file in directory %d", i)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if db, err = sql.Open("sqlite3", "file::memory:?vfs="+pagesum.VFS); err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
	}
}
