package sqlite

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/backend"
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
	path = crashCopy(t, live)
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() <= walHeader {
		t.Fatal(log, err)
	}
	return path, backup
}

// crashCopy returns the path of a copy of a database's files as a crash leaves them now.
func crashCopy(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "db")
	for _, suffix := range []string{"", "-wal", ".lock"} {
		copyFile(t, path+suffix, to+suffix)
	}
	return to
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
	moved := func(t *testing.T, from, to string) {
		t.Helper()
		copyFile(t, from, to+".new")
		if err := os.Rename(to+".new", to); err != nil {
			t.Fatal(err)
		}
	}
	another := filepath.Join(t.TempDir(), "another")
	closed(t, another, func(b *Backend) { writeKeys(t, b, "another") })
	for name, restore := range map[string]func(t *testing.T, path, backup string){
		"VACUUM INTO, copied":   func(t *testing.T, path, backup string) { t.Helper(); copyFile(t, backup, path) },
		"VACUUM INTO, moved":    func(t *testing.T, path, backup string) { t.Helper(); moved(t, backup, path) },
		"another store, copied": func(t *testing.T, path, _ string) { t.Helper(); copyFile(t, another, path) },
		"another store, moved":  func(t *testing.T, path, _ string) { t.Helper(); moved(t, another, path) },
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
			want, hint := ErrStaleLog, path+"-wal"
			if _, err := os.Stat(path); err != nil {
				want, hint = errOnlyLog, path
			}
			for range 2 { // it stays refused
				wantOpenError(t, path, want, hint)
			}
			for _, suffix := range []string{"-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			openAfterRestore(t, path)
		})
	}
}

// The server accepts what a crash leaves, even after the files were copied elsewhere, with or without the lock file.
func TestLogOfACrash(t *testing.T) {
	for name, suffixes := range map[string][]string{
		"in place": nil, "copied": {"", "-wal", ".lock"}, "copied without the lock file": {"", "-wal"},
	} {
		path, _ := crashed(t)
		if len(suffixes) > 0 {
			to := filepath.Join(t.TempDir(), "copy")
			for _, suffix := range suffixes {
				copyFile(t, path+suffix, to+suffix)
			}
			path = to
		}
		if r := revision(t, openAfterRestore(t, path)); r != 2 {
			t.Errorf("%s: revision %d", name, r)
		}
	}
}

// A copy of the file alone starts as an older store, which a warning says. A file that a server has closed is complete.
func TestFileWithoutItsLog(t *testing.T) {
	crashedAt, backup := crashed(t)
	alone, closedAt := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "db")
	copyFile(t, crashedAt, alone)
	closed(t, closedAt, func(b *Backend) { writeKeys(t, b, "a") })
	for path, want := range map[string]bool{
		alone: true, backup: true, closedAt: false, crashedAt: false, filepath.Join(t.TempDir(), "new"): false,
	} {
		for range 2 { // the second time it was closed
			var out strings.Builder
			b, err := Open(t.Context(), Config{Path: path, Logger: slog.New(slog.NewTextHandler(&out, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if warned := strings.Contains(out.String(), "was not closed"); warned != want {
				t.Errorf("%s: warned %v\n%s", path, warned, out.String())
			}
			want = false
		}
	}
}

// Transactions of another program do not write the clock. What they leave in a log is accepted if the file is sound
// with it.
func TestLogOfAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	closed(t, path, func(b *Backend) { writeKeys(t, b, "a", "b", "c") })
	other := filepath.Join(t.TempDir(), "other")
	closed(t, other, func(b *Backend) { writeKeys(t, b, strings.Split(strings.Repeat("k", 300), "")...) })
	c, err := connect(path, "wal_autocheckpoint = 0")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.exec("UPDATE object_versions SET value = 'changed'; CREATE INDEX added ON leases (ttl)"); err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "db")
	copyFile(t, path, written)
	copyFile(t, path+"-wal", written+"-wal")
	copyFile(t, path+"-wal", other+"-wal")
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	if n, err := openAfterRestore(t, written).writer.queryInt(
		"SELECT count(*) FROM object_versions WHERE value = 'changed'"); n != 3 || err != nil {
		t.Errorf("%d rows are changed, %v", n, err)
	}
	read := func() (content []byte) {
		t.Helper()
		for _, suffix := range []string{"", "-wal"} {
			file, err := os.ReadFile(other + suffix)
			if err != nil {
				t.Fatal(err)
			}
			content = append(content, file...)
		}
		return content
	}
	before := read()
	wantOpenError(t, other, ErrStaleLog, other+"-wal")
	if !bytes.Equal(read(), before) {
		t.Error("the refused start has changed the file or its log")
	}
}

// A log that has started again has older frames behind its end. Beside the file of another store at a higher revision,
// they are not taken for damage.
func TestRestartedLogOfAnotherStore(t *testing.T) {
	another, path := filepath.Join(t.TempDir(), "another"), filepath.Join(t.TempDir(), "db")
	closed(t, another, func(b *Backend) { writeKeys(t, b, strings.Split(strings.Repeat("k", 20), "")...) })
	b := openTest(t, Config{Path: path})
	p, c := checkpointing(t, b)
	writeKeys(t, b, "a", "b", "c", "d")
	p.once(t.Context(), c, alone)
	writeKeys(t, b, "e")
	crashedAt := filepath.Join(t.TempDir(), "db")
	copyFile(t, another, crashedAt)
	for _, suffix := range []string{"-wal", ".lock"} {
		copyFile(t, path+suffix, crashedAt+suffix)
	}
	wantOpenError(t, crashedAt, ErrStaleLog, crashedAt+"-wal")
}

// A log that shows no link to the file, and with which rows are missing, is refused.
func TestLogWithMissingRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	closed(t, path, func(b *Backend) { writeKeys(t, b, "a", "b", "c") })
	c, err := connect(path, "wal_autocheckpoint = 0")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.exec("DELETE FROM object_versions WHERE resource_version = 3"); err != nil {
		t.Fatal(err)
	}
	crashedAt := filepath.Join(t.TempDir(), "db")
	copyFile(t, path, crashedAt)
	copyFile(t, path+"-wal", crashedAt+"-wal")
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, crashedAt, ErrStaleLog, "revisions 3 to 3 have no rows")
}

// The chain of ids must have a link for every transaction: otherwise an older state of the file could pass for a later
// one.
func TestEveryTransactionHasAnID(t *testing.T) {
	b := openTest(t, Config{Path: filepath.Join(t.TempDir(), "db")})
	writeKeys(t, b, "a", "a", "a")
	row := func() (row clockRow) {
		t.Helper()
		n, err := b.writer.queryInts("SELECT revision, commit_id, previous_commit_id FROM clock")
		if err != nil {
			t.Fatal(err)
		}
		return clockRow{n[0], n[1], n[2]}
	}
	commit := func(e backend.Effects) func() error {
		return func() error {
			tx, err := b.Begin(t.Context(), backend.Needs{})
			if err != nil {
				return err
			}
			e.Revision = max(e.Revision, tx.Loaded().Clock.Revision)
			return tx.Commit(t.Context(), &e)
		}
	}
	for _, step := range []struct {
		name string
		f    func() error
	}{
		{"a lease", commit(backend.Effects{Granted: []backend.Lease{{ID: 1, TTL: time.Minute}}})},
		{"a revision", commit(backend.Effects{Revision: 9, Compacted: 9})},
		{"a purge", func() error {
			_, err := b.Purge(t.Context(), 100, math.MaxInt64)
			return err
		}},
		{"a defragmentation", func() error { return b.Defragment(t.Context()) }},
		{"an import", func() error { return b.SetImport(t.Context(), backend.Import{}, backend.Import{}, 0) }},
		{"remaining times", func() error { return b.SetRemaining(t.Context(), backend.Import{}, nil) }},
	} {
		before := row()
		if err := step.f(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if now := row(); now.previous != before.commit || now.commit == before.commit || now.commit == 0 {
			t.Errorf("after %s the clock is %+v, before %+v", step.name, now, before)
		}
	}
	before := row()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTest(t, Config{Path: b.path})
	if now := row(); now.previous != before.commit || now.commit == before.commit {
		t.Errorf("after a start the clock is %+v, before %+v", now, before)
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

// copyWithSQLite makes a copy like the shell's .backup, which does not maintain the checksums of pages.
func copyWithSQLite(t *testing.T, from, to string) {
	t.Helper()
	var conns [2]*sqlite3.SQLiteConn
	for i, path := range []string{from, to} {
		c, err := (&sqlite3.SQLiteDriver{}).Open("file:" + path)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c.(*sqlite3.SQLiteConn)
	}
	copied, err := conns[1].Backup("main", conns[0], "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := copied.Step(-1); err != nil {
		t.Error(err)
	}
	if err := errors.Join(copied.Finish(), conns[0].Close(), conns[1].Close()); err != nil {
		t.Fatal(err)
	}
}

// A copy that another program has made while the clock was in the log has a wrong checksum on its page. It is refused
// beside a later log all the same.
func TestCopyOfAnotherProgramOverTheFile(t *testing.T) {
	dir := t.TempDir()
	path, backup, crashedAt := filepath.Join(dir, "db"), filepath.Join(dir, "backup"), filepath.Join(dir, "crashed")
	b := openTest(t, Config{Path: path})
	p, c := checkpointing(t, b)
	writeKeys(t, b, "a", "b")
	copyWithSQLite(t, path, backup)
	writeKeys(t, b, "c")
	p.once(t.Context(), c, alone)
	writeKeys(t, b, "d") // in a log that starts again
	copyFile(t, backup, crashedAt)
	for _, suffix := range []string{"-wal", ".lock"} {
		copyFile(t, path+suffix, crashedAt+suffix)
	}
	wantOpenError(t, crashedAt, ErrStaleLog, crashedAt+"-wal")
}

// A copy of the file from before the log last started again lacks what was in it until then. It is refused beside the
// log, also if it keeps the inode of the file, as cp does. A copy from the beginning of the log needs nothing else.
func TestOlderCopyOverTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	writeKeys(t, b, "a")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = openTest(t, Config{Path: path})
	p, c := checkpointing(t, b)
	begun := filepath.Join(t.TempDir(), "begun")
	copyFile(t, path, begun)
	writeKeys(t, b, "b", "c")
	p.once(t.Context(), c, alone)
	copied := crashCopy(t, path)
	writeKeys(t, b, "d") // in a log that starts again
	again := crashCopy(t, path)
	whole := crashCopy(t, path)

	copyFile(t, begun, copied)
	if r := revision(t, openAfterRestore(t, copied)); r != 4 {
		t.Errorf("with all of the log, the file is at revision %d", r)
	}
	copyFile(t, begun, again)
	wantOpenError(t, again, ErrStaleLog, again+"-wal")
	if r := revision(t, openAfterRestore(t, whole)); r != 5 {
		t.Errorf("what the crash left is at revision %d", r)
	}
}
