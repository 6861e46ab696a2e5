package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
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
			for range cap(b.readers) { // which opens all connections
				if rows, err := list(t, b); err != nil || len(rows) != 2 {
					t.Errorf("%d keys, %v", len(rows), err)
				}
			}
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
			if rows, err := list(t, b); err != nil || len(rows) != 3 {
				t.Errorf("%d keys can be read, %v", len(rows), err)
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
			for range cap(b.readers) { // which opens all connections
				if _, err := list(t, b); err != nil {
					t.Fatal(err)
				}
			}
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
