package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

// closedDatabase creates a database of 300 keys on some pages, and closes it.
func closedDatabase(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "db")
	b := openTest(t, Config{Path: path})
	for i := range 300 {
		if err := write(b, fmt.Sprintf("/registry/pods/%04d", i), incompressible(300)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// countPages returns how many pages the file has, and how many of them do not match their checksums.
func countPages(t *testing.T, path string) (all, bad int) {
	t.Helper()
	file, err := pagesum.OpenFile(path, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	size, err := summedPages(file)
	if err != nil || size == 0 {
		return 0, 0
	}
	err = eachPage(t.Context(), file, size, func(_ int64, page []byte, _ float64) error {
		if all++; !pagesum.Valid(page) {
			bad++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, bad
}

// flipInPlace flips a bit but keeps the file's modification time, as a failing disk does.
func flipInPlace(t *testing.T, path string, at int64) {
	t.Helper()
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = file.ReadAt(b[:], at)
	b[0] ^= 4
	if err == nil {
		_, err = file.WriteAt(b[:], at)
	}
	if err := errors.Join(err, file.Close(), os.Chtimes(path, before.ModTime(), before.ModTime())); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, b *Backend) ([]backend.Row, error) {
	t.Helper()
	rows, _, err := b.Range(t.Context(), backend.RangeQuery{
		Span: backend.Span{End: []byte{}}, Revision: b.clock.Load().Revision, Limit: 1000, KeysOnly: true,
	})
	return rows, err
}

// TestPageOfIndex flips a bit in a page of the key index, which no checksum of a row covers.
func TestPageOfIndex(t *testing.T) {
	path := closedDatabase(t)
	if all, bad := countPages(t, path); all < 10 || bad != 0 {
		t.Fatalf("%d pages, %d without a valid checksum", all, bad)
	}
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	var root int64
	err = db.QueryRow("SELECT rootpage FROM sqlite_schema WHERE name = ?", keyIndex).Scan(&root)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	flipInPlace(t, path, (root-1)*4096+14) // the first cell's place in the root
	b := openTest(t, Config{Path: path})
	if rows, err := list(t, b); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("%d keys, error %v", len(rows), err)
	}
	want := fmt.Sprintf("page %d of the file does not match its checksum", root)
	if problems := inspect(t, path); !strings.Contains(problems, want) {
		t.Errorf("problems %q, want %q", problems, want)
	}
}

// inspect returns the problems that an inspection of a file finds.
func inspect(t *testing.T, path string) string {
	t.Helper()
	v, err := OpenView(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	i := &backend.Inspection{}
	if err := errors.Join(v.Inspect(t.Context(), i), v.Close()); err != nil {
		t.Fatal(err)
	}
	return strings.Join(i.Problems, "\n")
}

// TestInspectionOfClosedFile verifies the pages of a file that no server has open. A view leaves an empty log behind,
// which must not make the file look like another program's.
func TestInspectionOfClosedFile(t *testing.T) {
	path := closedDatabase(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	last := info.Size() / 4096
	flipInPlace(t, path, (last-1)*4096+100)
	want := fmt.Sprintf("page %d of the file does not match its checksum", last)
	for range 2 {
		if problems := inspect(t, path); !strings.Contains(problems, want) {
			t.Errorf("problems %q, want %q", problems, want)
		}
	}
	lock, err := os.Open(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := readNote(lock); err != nil || !n.writtenHere(path, false) {
		t.Error("after a view, the next start takes the file for another program's")
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFileOfAnotherProgram opens files that sqlite3 has written without checksums of pages.
func TestFileOfAnotherProgram(t *testing.T) {
	shell := func(t *testing.T, path, statement string) {
		t.Helper()
		db, err := sql.Open("sqlite3", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec(statement)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	adopted := func(t *testing.T, path string) {
		t.Helper()
		if _, bad := countPages(t, path); bad == 0 {
			t.Fatal("every page has a valid checksum before the start")
		}
		b := openTest(t, Config{Path: path})
		if rows, err := list(t, b); err != nil || len(rows) != 300 {
			t.Errorf("%d keys, error %v", len(rows), err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if all, bad := countPages(t, path); all == 0 || bad != 0 {
			t.Errorf("%d pages, %d without a valid checksum", all, bad)
		}
	}
	t.Run("VACUUM INTO", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "copy")
		shell(t, closedDatabase(t), "VACUUM INTO '"+path+"'")
		v, err := OpenView(t.Context(), path) // a backup can be verified where it is
		if err != nil {
			t.Fatal(err)
		}
		i := &backend.Inspection{}
		if err := errors.Join(v.Inspect(t.Context(), i), v.Close()); err != nil || i.Found != 0 || i.Rows != 300 {
			t.Errorf("%d rows, problems %q, error %v", i.Rows, i.Problems, err)
		}
		adopted(t, path)
	})
	t.Run("a write", func(t *testing.T) {
		path := closedDatabase(t)
		shell(t, path, "REINDEX")
		adopted(t, path)
	})
	t.Run("the log of a crash", func(t *testing.T) {
		path := closedDatabase(t)
		b := openTest(t, Config{Path: path})
		if err := write(b, "/registry/pods/0000", nil); err != nil {
			t.Fatal(err)
		}
		crashed := filepath.Join(t.TempDir(), "crashed")
		for _, suffix := range []string{"", "-wal"} {
			copyFile(t, path+suffix, crashed+suffix)
		}
		shell(t, crashed, "SELECT count(*) FROM objects") // copies the log when it ends
		adopted(t, crashed)
	})
	t.Run("damaged", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "copy")
		shell(t, closedDatabase(t), "VACUUM INTO '"+path+"'")
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := strings.LastIndex(string(whole), "/registry/pods/0150") // in the table or in the index
		flipInPlace(t, path, int64(at)+17)
		wantOpenError(t, path, ErrCorrupt, "")
	})
}

// TestDefragmentAddsChecksums converts a file that another program has made, without checksums of pages.
func TestDefragmentAddsChecksums(t *testing.T) {
	path := withoutChecksums(t, closedDatabase(t))
	b := openTest(t, Config{Path: path})
	if all, _ := countPages(t, path); all != 0 {
		t.Fatal("the file has checksums")
	}
	if err := b.Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := write(b, "more", incompressible(10_000)); err != nil {
		t.Fatal(err)
	}
	if rows, err := list(t, b); err != nil || len(rows) != 301 {
		t.Errorf("%d keys, error %v", len(rows), err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if all, bad := countPages(t, path); all < 10 || bad != 0 {
		t.Errorf("%d pages, %d without a valid checksum", all, bad)
	}
	again := openTest(t, Config{Path: path})
	if rows, err := list(t, again); err != nil || len(rows) != 301 {
		t.Errorf("after a restart: %d keys, error %v", len(rows), err)
	}
}

// withoutChecksums returns a copy of the file that reserves no bytes in its pages.
func withoutChecksums(t *testing.T, path string) string {
	t.Helper()
	old := filepath.Join(t.TempDir(), "old")
	db, err := sql.Open("sqlite3", "file:"+old)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	do := func(statement string) {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	do("PRAGMA auto_vacuum = 2")
	do(fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	do("PRAGMA journal_mode = WAL")
	do("ATTACH '" + path + "' AS source")
	rows, err := db.Query("SELECT type, name, sql FROM source.sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var statements []string
	for rows.Next() {
		var kind, name, statement string
		if err := rows.Scan(&kind, &name, &statement); err != nil {
			t.Fatal(err)
		}
		statements = append(statements, statement)
		if kind == "table" {
			statements = append(statements, "INSERT INTO main."+name+" SELECT * FROM source."+name)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		do(s)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return old
}
