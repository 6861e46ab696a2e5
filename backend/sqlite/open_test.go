package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/schema"
)

// write commits one row at the next revision.
func write(b *Backend, key string, value []byte) error {
	ctx := context.Background()
	tx, err := b.Begin(ctx, backend.Needs{})
	if err != nil {
		return err
	}
	r := tx.Loaded().Clock.Revision + 1
	return tx.Commit(ctx, &backend.Effects{Revision: r, Rows: []backend.Row{
		{Key: []byte(key), Value: value, ModRevision: r, CreateRevision: r, Version: 1},
	}})
}

func wantOpenError(t *testing.T, path string, want error, hint string) {
	t.Helper()
	b, err := Open(context.Background(), Config{Path: path})
	if err == nil {
		err = errors.Join(errors.New("opened"), b.Close())
	}
	if !errors.Is(err, want) || !strings.Contains(err.Error(), hint) ||
		!strings.Contains(err.Error(), filepath.Base(path)) {
		t.Errorf("error %v; want %v, with %q and the path", err, want, hint)
	}
}

func TestFilesAreTheOwners(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "deeper ?#%")
	b := openTest(t, Config{Path: filepath.Join(dir, "my store.db")})
	if err := write(b, "a", nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4 { // database, WAL, its index, lock
		t.Errorf("files %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
}

func TestInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	wantOpenError(t, path, backend.ErrInUse, fmt.Sprintf("(its process id is %d)", os.Getpid()))
	// The refused process has not removed the first one's locks.
	if err := write(b, "a", nil); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// The lock file still exists, and blocks no process.
	if _, err := os.Stat(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	openTest(t, Config{Path: path})
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(context.Background(), Config{Path: filepath.Join(file, "below", "db")})
	if err == nil || !strings.Contains(err.Error(), "make the data directory") {
		t.Error(err)
	}
	_, err = Open(context.Background(), Config{Path: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "must be readable and writable") {
		t.Error(err)
	}
	for _, cfg := range []Config{{}, {Path: file, Temporary: true}} {
		if _, err := Open(context.Background(), cfg); err == nil {
			t.Errorf("%+v: opened", cfg)
		}
	}
}

func TestNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	text := bytes.Repeat([]byte("This is not a database. "), 1000)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, path, ErrNotSQLStore, "choose another path")
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
		t.Errorf("the file was changed, %v", err)
	}
	wantAlone(t, path)
}

// wantAlone checks that nothing was made beside a file.
func wantAlone(t *testing.T, path string) {
	t.Helper()
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// Neither a device nor a pipe is opened, which could block, and no lock file is made beside it.
func TestNotARegularFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, path, ErrNotSQLStore, "not a regular file")
	wantAlone(t, path)
	wantOpenError(t, os.DevNull, ErrNotSQLStore, "not a regular file")
	if _, err := os.Stat(os.DevNull + ".lock"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestDatabaseOfAnotherApplication(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE theirs (a)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, path, ErrNotSQLStore, "choose another path")
	err = WithDatabase(t.Context(), path, func(context.Context, *sql.DB) error { return nil })
	if !errors.Is(err, ErrNotSQLStore) {
		t.Errorf("to inspect it: %v", err)
	}
	wantAlone(t, path)
}

// An empty database is a new one, whoever has made it.
func TestEmptyDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("VACUUM"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	openTest(t, Config{Path: path})
}

func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	for range 100 {
		if err := write(b, "a", make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Everything except the first page's header, which still identifies the file.
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xff}, 100_000), 100); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, path, ErrCorrupt, "restore a backup")
}

// edit changes a closed database with plain SQL.
func edit(t *testing.T, path, query string) {
	t.Helper()
	c, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.exec(query); err != nil {
		t.Error(err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

func TestSchemaOfAnotherVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := openTest(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, path, "UPDATE schema_migrations SET version = 4711")
	wantOpenError(t, path, schema.ErrNewer, "at version 4711, this program knows up to 1")
	edit(t, path, "UPDATE schema_migrations SET version = 1, dirty = 1")
	wantOpenError(t, path, schema.ErrDirty, "sqlite3 FILE")
	edit(t, path, "UPDATE schema_migrations SET dirty = 0")
	openTest(t, Config{Path: path})
}

func TestSettingsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := openTest(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, path, "DELETE FROM clock")
	wantOpenError(t, path, ErrCorrupt, "clock")
}

// TestAutoVacuumIsMended opens a file that another program rewrote without incremental vacuum.
func TestAutoVacuumIsMended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	if err := write(b, "a", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, path, "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM")
	b = openTest(t, Config{Path: path})
	for pragma, want := range map[string]int64{
		"auto_vacuum": incrementalVacuum, "synchronous": 2,
		"wal_autocheckpoint": 0,
	} {
		if got, err := b.writer.queryInt("PRAGMA " + pragma); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", pragma, got, err, want)
		}
	}
	if rows, _, err := b.Range(context.Background(),
		backend.RangeQuery{Span: backend.Span{Start: []byte("a")}, Revision: 2, Limit: 1}); err != nil ||
		len(rows) != 1 {
		t.Error(rows, err)
	}
}

func TestTemporary(t *testing.T) {
	b := openTest(t, Config{Temporary: true})
	if sync, err := b.writer.queryInt("PRAGMA synchronous"); err != nil || sync != 0 {
		t.Errorf("synchronous %d, %v", sync, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(b.path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// A symbolic link names the same database as the file that it leads to, also before that is there.
func TestOpenByLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "data", "db")
	for name, target := range map[string]string{link: "second", filepath.Join(dir, "second"): "data/db"} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		b := openTest(t, Config{Path: link})
		if err := write(b, "a", []byte("1")); err != nil {
			t.Fatal(err)
		}
		if other, err := Open(t.Context(), Config{Path: file}); !errors.Is(err, backend.ErrInUse) {
			t.Errorf("opened twice by two names: %v, %v", other, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A database stays in use without its lock file, and under another name.
func TestInUseWithoutLockFile(t *testing.T) {
	const role = "open in use"
	if path, ok := env.IsChild(role); ok {
		b, err := Open(context.Background(), Config{Path: path})
		if !errors.Is(err, backend.ErrInUse) {
			t.Fatalf("opened %v, %v", b, err)
		}
		err = WithDatabase(context.Background(), path, func(context.Context, *sql.DB) error { return nil })
		if !errors.Is(err, backend.ErrInUse) {
			t.Errorf("with the database: %v", err)
		}
		return
	}
	dir := t.TempDir()
	path, link := filepath.Join(dir, "db"), filepath.Join(dir, "link")
	b := openTest(t, Config{Path: path})
	if err := errors.Join(write(b, "a", nil), os.Remove(path+".lock"), os.Link(path, link)); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, path, backend.ErrInUse, "")
	for _, p := range []string{path, link} {
		other := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		other.Env = append(os.Environ(), env.AsChild(role, p))
		if out, err := other.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", p, err, out)
		}
	}
	if err := write(b, "b", nil); err != nil {
		t.Error(err)
	}
	if problems := inspect(t, path); problems != "" {
		t.Errorf("problems: %s", problems)
	}
}
