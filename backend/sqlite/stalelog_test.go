package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// crashed leaves a database's files as a crash does, with the key old in the WAL, and an earlier backup made by VACUUM
// INTO.
func crashed(t *testing.T) (path, backup string) {
	t.Helper()
	live := filepath.Join(t.TempDir(), "db")
	b, err := Open(t.Context(), Config{Path: live})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	backup = filepath.Join(t.TempDir(), "backup")
	edit(t, live, "VACUUM INTO '"+backup+"'")
	if err := write(b, "old", []byte("v")); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "db")
	for _, suffix := range []string{"", "-wal", ".lock"} {
		copyFile(t, live+suffix, path+suffix)
	}
	file, errFile := os.Stat(path)
	log, errLog := os.Stat(path + "-wal")
	if errFile != nil || errLog != nil || log.Size() <= walHeader {
		t.Fatal(errFile, errLog, log)
	}
	// The note that the server would have written here.
	if err := os.WriteFile(path+".lock", []byte(identity(file)+" "+identity(log)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, backup
}

// copyFile copies like cp, into the existing file.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestLogOfAnotherFile(t *testing.T) {
	replace := func(t *testing.T, from, to string) {
		t.Helper()
		copyFile(t, from, to+".new")
		if err := os.Rename(to+".new", to); err != nil {
			t.Fatal(err)
		}
	}
	// a copy of the file alone, as cp or rsync make a backup of a server at rest
	raw := func(t *testing.T, path string) string {
		t.Helper()
		to := filepath.Join(t.TempDir(), "raw")
		copyFile(t, path, to)
		return to
	}
	for name, restore := range map[string]func(t *testing.T, path, backup string){
		"VACUUM INTO, copied": func(t *testing.T, path, backup string) { t.Helper(); copyFile(t, backup, path) },
		"VACUUM INTO, moved":  func(t *testing.T, path, backup string) { t.Helper(); replace(t, backup, path) },
		"a raw copy, moved":   func(t *testing.T, path, _ string) { t.Helper(); replace(t, raw(t, path), path) },
		"no file": func(t *testing.T, path, _ string) {
			t.Helper()
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, backup := crashed(t)
			restore(t, path, backup)
			for range 2 { // it stays refused
				wantOpenError(t, path, ErrStaleLog, path+"-wal")
			}
			for _, suffix := range []string{"-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil && !strings.Contains(err.Error(), "no such file") {
					t.Fatal(err)
				}
			}
			openAfterRestore(t, path)
		})
	}
}

// The server accepts what a crash leaves, even after all of it was copied elsewhere.
func TestLogOfACrash(t *testing.T) {
	for _, copied := range []bool{false, true} {
		path, _ := crashed(t)
		if copied {
			to := filepath.Join(t.TempDir(), "copy")
			for _, suffix := range []string{"", "-wal", ".lock"} {
				copyFile(t, path+suffix, to+suffix)
			}
			path = to
		}
		b := openAfterRestore(t, path)
		if clock, err := b.Clock(t.Context()); err != nil || clock.Revision != 2 {
			t.Errorf("copied %v: clock %+v, %v", copied, clock, err)
		}
	}
}

func openAfterRestore(t *testing.T, path string) *Backend {
	t.Helper()
	b, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A copy of the file from before its last checkpoint, copied over it by cp, keeps its inode. Beside the log it is
// refused; with a log of its own, or the file as the crash left it, all is well.
func TestOlderCopyOverTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	if err := write(b, "a", []byte("v")); err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(t.TempDir(), "older")
	copyFiles := func(from, to string, suffixes ...string) {
		t.Helper()
		for _, suffix := range suffixes {
			copyFile(t, from+suffix, to+suffix)
		}
	}
	copyFiles(path, older, "", "-wal")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTest(t, Config{Path: path})
	closed := filepath.Join(t.TempDir(), "closed")
	copyFiles(path, closed, "")
	p, c := checkpointing(t, b)
	for _, key := range []string{"b", "c"} {
		if err := write(b, key, []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	p.noted = time.Time{}
	p.once(t.Context(), c, alone) // copies, and notes it
	crashedAt := map[string]string{
		"copied": filepath.Join(t.TempDir(), "db"), "written": filepath.Join(t.TempDir(), "db"),
	}
	crash := func(to string) {
		t.Helper()
		copyFiles(path, to, "", "-wal", ".lock")
		file, errFile := os.Stat(to)
		log, errLog := os.Stat(to + "-wal")
		note, errNote := os.ReadFile(path + ".lock")
		if errFile != nil || errLog != nil || errNote != nil {
			t.Fatal(errFile, errLog, errNote)
		}
		held := strings.Fields(string(note))
		if len(held) != 8 || held[2] != "4" {
			t.Fatalf("the note is %q", note)
		}
		noted := identity(file) + " " + identity(log) + " " + strings.Join(held[2:], " ")
		if err := os.WriteFile(to+".lock", []byte(noted), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	crash(crashedAt["copied"])
	if err := write(b, "d", []byte("v")); err != nil { // in a log that starts again
		t.Fatal(err)
	}
	crash(crashedAt["written"])
	for name, at := range crashedAt {
		t.Run(name, func(t *testing.T) {
			again := filepath.Join(t.TempDir(), "again")
			copyFiles(at, again, "", "-wal", ".lock")
			copyFile(t, closed, at)
			wantOpenError(t, at, ErrStaleLog, "revision 2 and was at 4")
			copyFiles(older, at, "", "-wal")
			if r := revision(t, openAfterRestore(t, at)); r != 2 {
				t.Errorf("with a log of its own, the copy is at revision %d", r)
			}
			if r := revision(t, openAfterRestore(t, again)); r < 4 {
				t.Errorf("what the crash left is at revision %d", r)
			}
		})
	}
}
