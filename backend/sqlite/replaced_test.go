package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// A server whose file was replaced or removed acknowledges no more writes, and the next start uses what is at the path.
func TestReplacedFile(t *testing.T) {
	for name, c := range map[string]struct {
		replace  func(path, backup string) error
		revision int64 // after the next start
		older    bool  // the next start knows that it is an older state
	}{
		"replaced": {func(path, backup string) error { return os.Rename(backup, path) }, 2, true},
		"removed":  {func(path, _ string) error { return os.Remove(path) }, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a")
			edit(t, path, "VACUUM INTO '"+backup+"'")
			writeKeys(t, b, "b")
			if err := c.replace(path, backup); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err := write(b, "c", nil)
			for ; err == nil && time.Since(began) < time.Minute; err = write(b, "c", nil) {
			}
			if !errors.Is(err, errReplaced) {
				t.Fatalf("write: %v", err)
			}
			if _, err := b.Size(t.Context()); !errors.Is(err, errReplaced) {
				t.Errorf("size: %v", err)
			}
			for range cap(b.readers) {
				if rows, err := list(t, b); err != nil || len(rows) != 3 {
					t.Errorf("%d keys can be read, %v", len(rows), err)
				}
			}
			for range cap(b.scanners) {
				if d, err := b.Digests(t.Context(), backend.DigestQuery{Limit: 10}); err != nil || len(d.Rows) == 0 {
					t.Errorf("digests: %v", err)
				}
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			for range 2 {
				b := openAfterRestore(t, path)
				if r := revision(t, b); r != c.revision {
					t.Errorf("revision %d after the next start, want %d", r, c.revision)
				}
				if older := b.Restored().Revision > c.revision; older != c.older {
					t.Errorf("known to be older: %v", older)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A connection that opens only after the file was replaced must not answer from the new one.
func TestReplacedBeforeRead(t *testing.T) {
	for name, replace := range map[string]func(path, backup string) error{
		"replaced": func(path, backup string) error { return os.Rename(backup, path) },
		"removed":  func(path, _ string) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a")
			edit(t, path, "VACUUM INTO '"+backup+"'")
			writeKeys(t, b, "b")
			for range cap(b.readers) {
				c := <-b.readers
				if err := c.close(); err != nil {
					t.Fatal(err)
				}
				b.readers <- nil
			}
			if err := replace(path, backup); err != nil {
				t.Fatal(err)
			}
			if _, err := b.connect(); !errors.Is(err, errReplaced) {
				t.Errorf("connect: %v", err)
			}
			if rows, err := list(t, b); !errors.Is(err, errReplaced) {
				t.Errorf("%d keys, %v", len(rows), err)
			}
			if err := write(b, "c", nil); !errors.Is(err, errReplaced) {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// A server whose directory was replaced must not remove the log of the server that has the new file open.
func TestReplacedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "db")
	b := openTest(t, Config{Path: path})
	writeKeys(t, b, "a")
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := os.WriteFile(path+suffix, []byte("another server's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if now, err := os.ReadFile(path + suffix); err != nil || string(now) != "another server's" {
			t.Errorf("%s has become %q, %v", path+suffix, now, err)
		}
	}
}

// A server whose write-ahead log was replaced or removed acknowledges no more writes. It saves what the log has in the
// file, so that not even a crash loses anything that was acknowledged.
func TestRemovedLog(t *testing.T) {
	for name, remove := range map[string]func(log string) error{
		"removed": os.Remove,
		"replaced": func(log string) error {
			return errors.Join(os.Rename(log, log+"2"), os.WriteFile(log, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a")
			if err := remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
			keys := 1
			began := time.Now()
			err := write(b, "b", nil)
			for ; err == nil && time.Since(began) < time.Minute; err = write(b, "b", nil) {
				keys = 2
			}
			if !errors.Is(err, errLogRemoved) {
				t.Fatalf("write: %v", err)
			}
			acknowledged := revision(t, b)
			saved := func() bool {
				row, known := clockOfFile(path, true)
				return known && row.revision == acknowledged
			}
			for ctx := t.Context(); !saved() && ctx.Err() == nil && time.Since(began) < time.Minute; {
				if rows, err := list(t, b); err != nil || len(rows) != keys {
					t.Fatalf("%d keys can be read, %v", len(rows), err)
				}
			}
			crashed := filepath.Join(t.TempDir(), "db")
			file, err := os.ReadFile(path)
			if err := errors.Join(err, os.WriteFile(crashed, file, 0o600), b.Close()); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{crashed, path} {
				b := openTest(t, Config{Path: path})
				if rows, err := list(t, b); err != nil || len(rows) != keys || revision(t, b) != acknowledged {
					t.Errorf("%d keys at revision %d, %v; acknowledged: %d", len(rows), revision(t, b), err,
						acknowledged)
				}
			}
		})
	}
}

// TestRemovedLogThatCannotBeCopied removes the log of a file that can no longer be written. What only the log holds can
// be read until the server stops, and the next start knows what is missing.
func TestRemovedLogThatCannotBeCopied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	writeKeys(t, b, "a")
	b.file.Seal(true) // as a failed sync does
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	b.watching.Wait() // it ends when nothing more can be done
	if err := write(b, "b", nil); !errors.Is(err, errLogLost) {
		t.Fatalf("write: %v", err)
	}
	if rows, err := list(t, b); err != nil || len(rows) == 0 {
		t.Errorf("%d keys can be read, %v", len(rows), err)
	}
	acknowledged := revision(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTest(t, Config{Path: path})
	if r := revision(t, b); r >= acknowledged || b.Restored().Revision != acknowledged {
		t.Errorf("the next start is at revision %d, and knows of %d of %d", r, b.Restored().Revision, acknowledged)
	}
}

// A connection that opens only after the log was replaced must not read the new one.
func TestRemovedLogBeforeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	writeKeys(t, b, "a")
	if err := os.Remove(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.connect(); !errors.Is(err, errLogRemoved) {
		t.Errorf("connect: %v", err)
	}
	if err := write(b, "b", nil); !errors.Is(err, errLogRemoved) {
		t.Errorf("write: %v", err)
	}
}

// A server whose log was cut off acknowledges no write behind the gap, and does not copy the gap into the file.
func TestLogCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	writeKeys(t, b, "a", "b")
	copyAll(t, b)
	copied := revision(t, b)
	b.content.mu.Lock() // no checkpoint copies them
	for i := range 50 {
		writeKeys(t, b, fmt.Sprint(i))
	}
	acknowledged := revision(t, b)
	err := os.Truncate(path+"-wal", 0)
	b.content.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the write finds it, or a checkpoint
		if err := write(b, "z", bytes.Repeat([]byte("z"), 10_000)); !errors.Is(err, backend.ErrCorrupt) {
			t.Errorf("write: %v", err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if problems := inspect(t, path); problems != "" {
		t.Errorf("problems: %s", problems)
	}
	b = openAfterRestore(t, path)
	if r := revision(t, b); r < copied || r < acknowledged && b.Restored().Revision != acknowledged {
		t.Errorf("the next start is at revision %d, and knows of %d of %d", r, b.Restored().Revision, acknowledged)
	}
}

// A server whose file was cut off acknowledges no more writes, wherever the cut is.
func TestFileCutOff(t *testing.T) {
	for _, rest := range []int64{0, 4096, 40960, -4096} {
		t.Run(fmt.Sprint(rest), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a", "b", "c")
			copyAll(t, b)
			info, err := os.Stat(path)
			if err == nil && rest < 0 {
				rest += info.Size()
			}
			if err = errors.Join(err, os.Truncate(path, rest)); err != nil || rest >= info.Size() {
				t.Fatalf("%d bytes of %d are left, %v", rest, info.Size(), err)
			}
			began := time.Now()
			for err = write(b, "d", nil); err == nil && time.Since(began) < time.Minute; err = write(b, "d", nil) {
			}
			if !errors.Is(err, errOverwritten) {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// A server whose file was opened by a symbolic link acknowledges no more writes when the link leads to another one.
func TestReplacedLink(t *testing.T) {
	for name, replace := range map[string]func(link, other string) error{
		"another target": func(link, other string) error {
			return errors.Join(os.Remove(link), os.Symlink(other, link))
		},
		"removed": func(link, _ string) error { return os.Remove(link) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, other, link := filepath.Join(dir, "file"), filepath.Join(dir, "other"), filepath.Join(dir, "link")
			if err := os.Symlink(file, link); err != nil {
				t.Fatal(err)
			}
			b := openTest(t, Config{Path: link})
			writeKeys(t, b, "a")
			copyAll(t, b)
			copyFile(t, file, other)
			if err := replace(link, other); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err := write(b, "b", nil)
			for ; err == nil && time.Since(began) < time.Minute; err = write(b, "b", nil) {
			}
			if !errors.Is(err, errReplaced) {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// The start after a crash of a server whose file was replaced uses what is at the path, and moves the log of the former
// file aside. Without a file, it does not begin an empty store beside that log.
func TestCrashAfterReplacement(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(path, backup string) error
		err     error // of the next start
	}{
		"replaced": {func(path, backup string) error { return os.Rename(backup, path) }, nil},
		"removed":  {func(path, _ string) error { return os.Remove(path) }, errOnlyLog},
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a", "b")
			edit(t, path, "VACUUM INTO '"+backup+"'")
			writeKeys(t, b, "c")
			if err := c.replace(path, backup); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err := write(b, "d", nil)
			for ; err == nil && time.Since(began) < time.Minute; err = write(b, "d", nil) {
			}
			if !errors.Is(err, errReplaced) {
				t.Fatalf("write: %v", err)
			}
			crashed := filepath.Join(t.TempDir(), "db")
			for _, suffix := range []string{"", "-wal", ".lock"} {
				if suffix != "" || c.err == nil {
					copyFile(t, path+suffix, crashed+suffix)
				}
			}
			if c.err != nil {
				wantOpenError(t, crashed, c.err, crashed)
				return
			}
			b = openAfterRestore(t, crashed)
			if r := revision(t, b); r != 3 || b.Restored().Revision <= r {
				t.Errorf("revision %d, restored to %d", r, b.Restored().Revision)
			}
			if logs, err := filepath.Glob(crashed + "-wal.*"); err != nil || len(logs) != 1 {
				t.Errorf("logs: %q, %v", logs, err)
			}
		})
	}
}

// A backup that is put in the place of a file together with its own log is used with that log, whether the server stops
// or crashes. Tools leave that decision to the start.
func TestReplacedWithLog(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, backup, path string){
		"renamed": func(t *testing.T, backup, path string) {
			t.Helper()
			if err := os.Rename(backup, path); err != nil {
				t.Fatal(err)
			}
		},
		"copied": copyFile,
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			b := openTest(t, Config{Path: path})
			writeKeys(t, b, "a")
			copyAll(t, b)
			writeKeys(t, b, "b", "c") // are in the log only
			for _, suffix := range []string{"", "-wal"} {
				copyFile(t, path+suffix, backup+suffix)
			}
			want := revision(t, b)
			writeKeys(t, b, "d", "e", "f")
			copyAll(t, b) // so that no checkpoint meets the replaced files
			for _, suffix := range []string{"", "-wal"} {
				replace(t, backup+suffix, path+suffix)
			}
			b.watching.Wait() // the backend has found out
			if err := write(b, "g", nil); err == nil {
				t.Fatal("a write to the former file is acknowledged")
			}
			crashed := crashCopy(t, path)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			for _, path := range []string{crashed, path} {
				nothing := func(context.Context, *sql.DB) error { return nil }
				if err := WithDatabase(t.Context(), path, nothing); !errors.Is(err, errUndecidedLog) {
					t.Errorf("a tool before the start: %v", err)
				}
				b := openAfterRestore(t, path)
				if r := revision(t, b); r != want || b.Restored().Revision <= r {
					t.Errorf("revision %d, want %d; restored to %d", r, want, b.Restored().Revision)
				}
				if problems := inspect(t, path); problems != "" {
					t.Errorf("problems: %s", problems)
				}
			}
		})
	}
}
