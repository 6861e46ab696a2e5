package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
)

// A server whose file was overwritten in place, as cp does, uses it no more and leaves it as it is. The next start uses
// it, without the log of the former one.
func TestOverwrittenFile(t *testing.T) {
	another, program := filepath.Join(t.TempDir(), "another"), filepath.Join(t.TempDir(), "program")
	closed(t, another, func(b *Backend) { writeKeys(t, b, "x", "y", "z", "a", "b", "c") })
	foreign(t, program, "PRAGMA journal_mode = WAL; CREATE TABLE other (a); INSERT INTO other VALUES (1)")
	vacuum := func(t *testing.T, path, to string) { t.Helper(); edit(t, path, "VACUUM INTO '"+to+"'") }
	for name, c := range map[string]struct {
		content  func(t *testing.T, path, to string) // makes what is copied over the file
		later    []string                            // keys that are written in between
		revision int64                               // after the next start; 0: the last one of the server
		err      error                               // of the next start
	}{
		"raw copy":               {copyFile, []string{"c", "d"}, 3, nil},
		"VACUUM INTO":            {vacuum, []string{"c", "d"}, 3, nil},
		"VACUUM INTO, unchanged": {vacuum, nil, 3, nil},
		"another program's":      {copyWithSQLite, []string{"c", "d"}, 3, nil},
		"the same, unchanged":    {copyWithSQLite, nil, 0, nil},
		"a later state": {func(t *testing.T, path, to string) {
			t.Helper()
			for _, suffix := range []string{"", "-wal", ".lock"} {
				copyFile(t, path+suffix, to+suffix)
			}
			closed(t, to, func(b *Backend) { writeKeys(t, b, "1", "2", "3", "4", "5", "6", "7") })
		}, []string{"c", "d"}, 10, nil},
		"another store":         {from(another), []string{"c", "d"}, 7, nil},
		"another program's own": {from(program), []string{"c", "d"}, 0, ErrNotSQLStore},
		"an empty file":         {from(os.DevNull), []string{"c", "d"}, 0, errOnlyLog},
		"not a database at all": {from("doc.go"), []string{"c", "d"}, 0, ErrNotSQLStore},
		"its first two pages": {func(t *testing.T, path, to string) {
			t.Helper()
			content, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(to, content[:8192], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, []string{"c", "d"}, 0, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a", "b")
			copyAll(t, b)
			c.content(t, path, backup)
			writeKeys(t, b, c.later...)
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
			if _, err := os.Stat(path + "-wal"); err == nil && c.revision > 0 {
				t.Error("the log is still beside the file")
			}
			if c.err != nil {
				wantOpenError(t, path, c.err, path)
				return
			}
			if problems := inspect(t, path); problems != "" {
				t.Errorf("problems: %s", problems)
			}
			want, saved := c.revision, 1
			if want == 0 { // the log belongs to the file
				want, saved = b.clock.Load().Revision, 0
			}
			for range 2 {
				closed(t, path, func(b *Backend) {
					if r := revision(t, b); r != want {
						t.Errorf("revision %d after the next start, want %d", r, want)
					}
				})
			}
			if logs, err := filepath.Glob(path + "-wal.*"); err != nil || len(logs) != saved {
				t.Errorf("logs: %q, %v", logs, err)
			}
		})
	}
}

// A copy that is written over the file just before the server stops is neither changed nor taken for what the server
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

// Another program's checkpoint does not maintain the checksums of pages, so it ends the use of the file, too. The log
// belongs to the file, so the next start has everything, also what was not copied.
func TestCheckpointOfAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	b.checkpoints.stop()
	writeKeys(t, b, "a", "b")
	foreign(t, path, "PRAGMA wal_checkpoint(PASSIVE)")
	err := write(b, "c", nil)
	if err != nil && !errors.Is(err, errOverwritten) {
		t.Fatal(err)
	}
	want := b.clock.Load().Revision
	if err := b.watchContent(); !errors.Is(err, errOverwritten) {
		t.Errorf("got %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, path, func(b *Backend) {
		if r := revision(t, b); r != want {
			t.Errorf("revision %d, want %d", r, want)
		}
	})
	if logs, err := filepath.Glob(path + "-wal*"); err != nil || len(logs) != 0 {
		t.Errorf("logs: %q, %v", logs, err)
	}
}

// Without checksums of pages, other programs may make checkpoints.
func TestCheckpointsOfOthersAreAllowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path, NoPageChecksums: true})
	for range 3 {
		writeKeys(t, b, "a", "b")
		foreign(t, path, "PRAGMA wal_checkpoint(PASSIVE)")
		if err := b.watchContent(); err != nil {
			t.Fatal(err)
		}
	}
	copyAll(t, b)
}

// A file whose times change is the same, and what a checkpoint of the server's own has written as well.
func TestTouchedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	for i := range 3 {
		writeKeys(t, b, "a", "b")
		copyAll(t, b)
		at := time.Unix(int64(i), 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		if err := b.watchContent(); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	writeKeys(t, b, "c")
	if err := b.watchContent(); err != nil {
		t.Fatal(err)
	}
}

// A copy that is written over the file during a checkpoint is noticed after it.
func TestOverwrittenDuringACheckpoint(t *testing.T) {
	path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
	b := openTest(t, Config{Path: path})
	b.checkpoints.stop()
	writeKeys(t, b, "a", "b")
	copyAll(t, b)
	copyFile(t, path, backup)
	writeKeys(t, b, "c")
	copyAll(t, b)
	b.content.mu.Lock()
	copyFile(t, backup, path)
	b.leave() // as if it had been written before
	b.content.mu.Unlock()
	if _, err := b.copyLog(b.writer, "PASSIVE"); !errors.Is(err, errOverwritten) {
		t.Errorf("got %v", err)
	}
}

// foreign runs statements as another program does, without checksums of pages.
func foreign(t *testing.T, path, query string) {
	t.Helper()
	c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.(*sqlite3.SQLiteConn).Exec(query, nil)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

// from makes a copy of another file.
func from(other string) func(t *testing.T, path, to string) {
	return func(t *testing.T, _, to string) { t.Helper(); copyFile(t, other, to) }
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
