package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
)

// A server whose file was overwritten in place, as cp does, serves nothing more and leaves the file as it is. The next
// start uses it.
func TestOverwrittenFile(t *testing.T) {
	another := filepath.Join(t.TempDir(), "another")
	closed(t, another, func(b *Backend) { writeKeys(t, b, "x", "y", "z", "a", "b", "c") })
	for name, c := range map[string]struct {
		content  func(t *testing.T, path, to string) // makes what is copied over the file
		revision int64                               // after the next start
	}{
		"raw copy": {copyFile, 3},
		"VACUUM INTO": {func(t *testing.T, path, to string) {
			t.Helper()
			edit(t, path, "VACUUM INTO '"+to+"'")
		}, 3},
		"another program's": {copyWithSQLite, 3},
		"another store":     {func(t *testing.T, _, to string) { t.Helper(); copyFile(t, another, to) }, 7},
		"a later state": {func(t *testing.T, path, to string) {
			t.Helper()
			copyFile(t, path, to)
			copyFile(t, path+"-wal", to+"-wal")
			copyFile(t, path+".lock", to+".lock")
			closed(t, to, func(b *Backend) { writeKeys(t, b, "1", "2", "3", "4", "5", "6", "7") })
		}, 10},
		"an empty file":         {func(t *testing.T, _, to string) { t.Helper(); copyFile(t, os.DevNull, to) }, 1},
		"not a database at all": {func(t *testing.T, _, to string) { t.Helper(); copyFile(t, "doc.go", to) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a", "b")
			copyAll(t, b)
			c.content(t, path, backup)
			writeKeys(t, b, "c", "d", "e")
			copyAll(t, b)
			copyFile(t, backup, path)
			err := write(b, "f", nil)
			for began := time.Now(); err == nil && time.Since(began) < time.Minute; err = write(b, "f", nil) {
			}
			if !errors.Is(err, errOverwritten) {
				t.Fatalf("write: %v", err)
			}
			if rows, err := list(t, b); !errors.Is(err, errOverwritten) {
				t.Errorf("%d keys can be read, %v", len(rows), err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			wantSame(t, path, backup)
			if logs, err := filepath.Glob(path + "-wal*"); err != nil || len(logs) != 1 || logs[0] == path+"-wal" {
				t.Errorf("logs: %q, %v", logs, err)
			}
			if c.revision == 0 {
				wantOpenError(t, path, ErrNotSQLStore, path)
				return
			}
			for range 2 {
				closed(t, path, func(b *Backend) {
					if r := revision(t, b); r != c.revision {
						t.Errorf("revision %d after the next start, want %d", r, c.revision)
					}
				})
			}
		})
	}
}

// A copy that is written over the file just before the server stops is not copied over, nor taken for what the server
// has written.
func TestOverwrittenBeforeClose(t *testing.T) {
	path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
	b := openTest(t, Config{Path: path})
	writeKeys(t, b, "a", "b")
	copyWithSQLite(t, path, backup)
	writeKeys(t, b, "c")
	copyAll(t, b)
	copyFile(t, backup, path)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	wantSame(t, path, backup)
	closed(t, path, func(b *Backend) {
		if r := revision(t, b); r != 3 {
			t.Errorf("revision %d", r)
		}
		wantRestored(t, b, 4)
	})
}

// Another program's checkpoint changes no content, but does not maintain the checksums of pages. The next start gives
// them new ones.
func TestCheckpointOfAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	var out strings.Builder
	b := openTest(t, Config{Path: path, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	b.checkpoints.stop()
	writeKeys(t, b, "a", "b")
	other, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path)
	if err == nil {
		_, err = other.(*sqlite3.SQLiteConn).Exec("PRAGMA wal_checkpoint(TRUNCATE)", nil)
	}
	if err := errors.Join(err, other.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.watchContent(); err != nil {
			t.Fatal(err)
		}
	}
	if warned := strings.Count(out.String(), "another program has written"); warned != 1 {
		t.Errorf("%d warnings\n%s", warned, out.String())
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, path, func(b *Backend) {
		if rows, err := list(t, b); err != nil || len(rows) != 2 {
			t.Errorf("%d keys, %v", len(rows), err)
		}
	})
}

// copyAll copies the log into the file, which then has everything that was written.
func copyAll(t *testing.T, b *Backend) {
	t.Helper()
	if err := b.acquireWriter(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer b.releaseWriter()
	for { // until no read is in its way
		n, err := b.copyLog(b.writer, "PASSIVE")
		if err != nil {
			t.Fatal(err)
		}
		if n[1] == n[2] {
			return
		}
	}
}

func wantSame(t *testing.T, path, want string) {
	t.Helper()
	a, errA := os.ReadFile(path)
	b, errB := os.ReadFile(want)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("%s has changed", path)
	}
}
