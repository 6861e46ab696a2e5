package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
)

// reading begins a read transaction as another program does, and returns what ends it.
func reading(t *testing.T, path string) (end func()) {
	t.Helper()
	c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path + "?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.(*sqlite3.SQLiteConn).Exec("BEGIN; SELECT revision FROM clock", nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// When another process reads an older state of a file whose log was removed, the log cannot be copied into the file,
// and a stop saves it beside the file.
func TestRemovedLogInUse(t *testing.T) {
	for name, replaced := range map[string]bool{"removed": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			path := filepath.Join(t.TempDir(), "db")
			b := openTest(t, Config{Path: path, Logger: slog.New(slog.NewTextHandler(&out, nil))})
			writeKeys(t, b, "a")
			end := reading(t, path)
			writeKeys(t, b, "b", "c")
			acknowledged := revision(t, b)
			err := os.Remove(path + "-wal")
			if replaced {
				err = errors.Join(err, os.WriteFile(path+"-wal", []byte("another"), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.connect(); !errors.Is(err, errLogRemoved) {
				t.Fatalf("connect: %v", err)
			}
			killed := filepath.Join(t.TempDir(), "db")
			for _, suffix := range []string{"", ".lock"} {
				copyFile(t, path+suffix, killed+suffix)
			}
			if k := openAfterRestore(t, killed); k.Restored().Revision != acknowledged {
				t.Errorf("after a crash without the log: restored to %d, want %d", k.Restored().Revision, acknowledged)
			}
			for range 2 {
				if b.salvageLog() {
					t.Fatal("copied the log while it is in use")
				}
			}
			b.writerLock <- struct{}{}
			err = b.writer.exec("PRAGMA busy_timeout = 1") // do not wait for the reader at the end
			b.releaseWriter()
			if err := errors.Join(err, b.Close()); err != nil {
				t.Fatal(err)
			}
			said := out.String()
			n := strings.Count(said, "into the database file yet")
			if n != 1 || !strings.Contains(said, "another process") {
				t.Errorf("said %d times that the log is in use:\n%s", n, said)
			}
			if replaced {
				saved, err := filepath.Glob(path + "-wal.*")
				if err != nil || len(saved) != 1 || !strings.Contains(said, saved[0]) {
					t.Fatalf("saved %s, %v:\n%s", saved, err, said)
				}
				if err := os.Rename(saved[0], path+"-wal"); err != nil {
					t.Fatal(err)
				}
			}
			crashed := crashCopy(t, path) // without the index of the log, which the reader still has
			for _, path := range []string{crashed, path} {
				b := openTest(t, Config{Path: path})
				if rows, err := list(t, b); err != nil || len(rows) != 3 || revision(t, b) != acknowledged {
					t.Errorf("%d keys at revision %d, %v; acknowledged: %d", len(rows), revision(t, b), err,
						acknowledged)
				}
			}
			end()
		})
	}
}

// awaited is the output of a log of which a test awaits a message.
type awaited struct {
	message string
	logged  chan struct{} // closed once the message is logged
	once    sync.Once
}

func (a *awaited) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(a.message)) {
		a.once.Do(func() { close(a.logged) })
	}
	return len(p), nil
}

// A server whose file was moved, with a symbolic link in its place, acknowledges no more writes: a start would expect
// the log beside the file. What the log has gets there before.
func TestMovedBehindLink(t *testing.T) {
	for name, inUse := range map[string]bool{"unused": false, "in use": true} {
		t.Run(name, func(t *testing.T) {
			path, moved := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "moved")
			relocked := &awaited{message: "locked the one at its path", logged: make(chan struct{})}
			b := openTest(t, Config{Path: path, Logger: slog.New(slog.NewTextHandler(relocked, nil))})
			writeKeys(t, b, "a")
			end := func() {}
			if inUse {
				end = reading(t, path)
			}
			writeKeys(t, b, "b")
			if err := errors.Join(os.Rename(path, moved), os.Symlink(moved, path)); err != nil {
				t.Fatal(err)
			}
			err := write(b, "c", nil)
			for began := time.Now(); err == nil && time.Since(began) < time.Minute; err = write(b, "c", nil) {
			}
			if !errors.Is(err, errLogRemoved) {
				t.Fatalf("write: %v", err)
			}
			acknowledged := revision(t, b)
			<-relocked.logged
			for _, path := range []string{moved, path} { // the log is still beside the former path
				if _, err := lockFile(path + ".lock"); !errors.Is(err, backend.ErrInUse) {
					t.Errorf("another start could lock %s: %v", path, err)
				}
			}
			b.writerLock <- struct{}{}
			err = b.writer.exec("PRAGMA busy_timeout = 1")
			b.releaseWriter()
			if err := errors.Join(err, b.Close()); err != nil {
				t.Fatal(err)
			}
			end()
			for range 2 {
				b := openTest(t, Config{Path: path})
				if r := revision(t, b); r != acknowledged || b.Restored().Revision != 0 {
					t.Errorf("revision %d, restored to %d; acknowledged: %d", r, b.Restored().Revision, acknowledged)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A reader of another process that delays the checkpoint at close is no fault: the log is there.
func TestLogInUseAtClose(t *testing.T) {
	var out bytes.Buffer
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	writeKeys(t, b, "a")
	end := reading(t, path)
	writeKeys(t, b, "b")
	b.writerLock <- struct{}{}
	err := b.writer.exec("PRAGMA busy_timeout = 1")
	b.releaseWriter()
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	if said := out.String(); !strings.Contains(said, "level=INFO msg=\"checkpoint at close is incomplete") {
		t.Errorf("said %s", said)
	}
	end()
	b = openTest(t, Config{Path: path})
	if rows, err := list(t, b); err != nil || len(rows) != 2 {
		t.Errorf("%d keys, %v", len(rows), err)
	}
}
