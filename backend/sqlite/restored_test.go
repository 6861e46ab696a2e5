package sqlite

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// An older copy in the place of the file shows, over every start, until the clock is above what the file had reached.
func TestOlderCopyShows(t *testing.T) {
	raw := func(t *testing.T, path, to string) { t.Helper(); copyFile(t, path, to) }
	vacuum := func(t *testing.T, path, to string) { t.Helper(); edit(t, path, "VACUUM INTO '"+to+"'") }
	over := func(t *testing.T, backup, path string) { t.Helper(); copyFile(t, backup, path) }
	moved := func(t *testing.T, backup, path string) {
		t.Helper()
		copyFile(t, backup, path+".new")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		back, restore func(t *testing.T, from, to string)
	}{
		"raw, copied": {raw, over}, "raw, moved": {raw, moved},
		"VACUUM INTO, copied": {vacuum, over}, "VACUUM INTO, moved": {vacuum, moved},
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
			closed(t, path, func(b *Backend) { writeKeys(t, b, "a", "b") })
			c.back(t, path, backup)
			closed(t, path, func(b *Backend) {
				wantRestored(t, b, 0)
				writeKeys(t, b, "c", "d")
			})
			c.restore(t, backup, path)
			for range 3 {
				closed(t, path, func(b *Backend) { wantRestored(t, b, 5) })
			}
			closed(t, path, func(b *Backend) {
				tx, err := b.Begin(t.Context(), backend.Needs{})
				if err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(t.Context(), &backend.Effects{Revision: 100, Compacted: 100}); err != nil {
					t.Fatal(err)
				}
				wantRestored(t, b, 0)
			})
			closed(t, path, func(b *Backend) { wantRestored(t, b, 0) })
		})
	}
}

// A copy elsewhere, another store in the file's place, and a store that may lose commits in a power cut show nothing.
func TestOtherFilesAreNotOlderCopies(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "other")
	closed(t, other, func(b *Backend) { writeKeys(t, b, "a") })
	closed(t, path, func(b *Backend) { writeKeys(t, b, "a", "b", "c") })
	elsewhere := filepath.Join(t.TempDir(), "db")
	copyFile(t, path, elsewhere)
	copyFile(t, other, path)
	for _, p := range []string{path, elsewhere} {
		closed(t, p, func(b *Backend) { wantRestored(t, b, 0) })
	}
	unsynced, backup := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "backup")
	for range 2 {
		b := openTest(t, Config{Path: unsynced, UnsafeNoFsync: true})
		wantRestored(t, b, 0)
		writeKeys(t, b, "a")
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(backup); err != nil {
			copyFile(t, unsynced, backup)
		}
	}
	copyFile(t, backup, unsynced)
	closed(t, unsynced, func(b *Backend) { wantRestored(t, b, 0) })
}

// A new store in the place of one whose file was removed says so, once.
func TestRemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	for i, want := range []bool{false, false, true, false} {
		if want {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		b := openTest(t, Config{Path: path, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(out.String(), "new, empty store"); warned != want {
			t.Errorf("start %d: warned %v\n%s", i, warned, out.String())
		}
	}
}

// closed opens the file, calls f and closes the file.
func closed(t *testing.T, path string, f func(*Backend)) {
	t.Helper()
	b := openTest(t, Config{Path: path})
	f(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func writeKeys(t *testing.T, b *Backend, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := write(b, key, []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
}

// wantRestored checks from which revision the file was put back; 0 means that nothing shows it.
func wantRestored(t *testing.T, b *Backend, revision int64) {
	t.Helper()
	if r := b.Restored(); r.Revision != revision || (r.Evidence != "") != (revision != 0) {
		t.Errorf("restored: %+v, want revision %d", r, revision)
	}
}

// A note of which a power cut has left parts of two revisions says nothing about what the store has reached.
func TestTornNoteShowsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	closed(t, path, func(b *Backend) { writeKeys(t, b, "a", "b", "c") })
	note, err := os.ReadFile(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(note))
	if len(words) != 5 || words[3] != "4" {
		t.Fatalf("the note is %q", note)
	}
	words[3] = "9"
	if err := os.WriteFile(path+".lock", []byte(strings.Join(words, " ")), 0o600); err != nil {
		t.Fatal(err)
	}
	closed(t, path, func(b *Backend) { wantRestored(t, b, 0) })
}
