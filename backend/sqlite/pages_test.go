package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
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

// pages returns how many pages the file has, and how many of them do not match their checksums.
func countPages(t *testing.T, path string) (all, bad int) {
	t.Helper()
	file, err := os.Open(path)
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
	v, err := OpenView(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	i := &backend.Inspection{}
	if err := errors.Join(v.Inspect(t.Context(), i), v.Close()); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("page %d of the file does not match its checksum", root); !strings.Contains(
		strings.Join(i.Problems, "\n"), want) {
		t.Errorf("problems %q, want %q", i.Problems, want)
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
	if !writtenHere(path, lock) {
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

// TestDefragmentAddsChecksums converts a file of a version that had no checksums of pages.
func TestDefragmentAddsChecksums(t *testing.T) {
	path := withoutChecksums(t, closedDatabase(t))
	b := openTest(t, Config{Path: path})
	if all, _ := countPages(t, path); all != 0 {
		t.Fatal("the old file has checksums")
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

// TestDamagedFrame flips a bit in the log of a running server. The checkpoint that meets it must not copy it.
func TestDamagedFrame(t *testing.T) {
	path := closedDatabase(t)
	b := openTest(t, Config{Path: path})
	conn, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	value := incompressible(8000)
	if err := write(b, "damaged", value); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(log, value[4000:4100])
	if at < 0 {
		t.Fatal("the value is not in the log")
	}
	flipInPlace(t, path+"-wal", int64(at))
	w, ok := b.checkpoints.checkpoint(conn, "PASSIVE")
	if ok {
		t.Errorf("copied %d bytes", w.copied)
	}
	if err := write(b, "after", nil); !errors.Is(err, backend.ErrCorrupt) {
		t.Errorf("write after the damage: %v", err)
	}
	if rows, err := list(t, b); err != nil || len(rows) != 301 {
		t.Errorf("%d keys, error %v", len(rows), err)
	}
	if err := conn.close(); err != nil {
		t.Error(err)
	}
}

// TestDamageBeforeTheEndOfTheLog flips bits in the log of a crash. The commits that SQLite would drop from the first
// damaged frame on were acknowledged, unless that frame belongs to the last one.
func TestDamageBeforeTheEndOfTheLog(t *testing.T) {
	path := closedDatabase(t)
	b := openTest(t, Config{Path: path})
	b.checkpoints.stop() // nothing but the log has the last commit
	for i := range 20 {
		if err := write(b, fmt.Sprint("more", i), incompressible(300)); err != nil {
			t.Fatal(err)
		}
	}
	crashed := func(copied bool, damage func(size, frames int) (at int)) string {
		to := filepath.Join(t.TempDir(), "crashed")
		for _, suffix := range []string{"", "-wal"} {
			copyFile(t, path+suffix, to+suffix)
		}
		log, err := os.ReadFile(to + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		size := frameHeader + 4096
		frames := 0
		for at := walHeader; at+size <= len(log) && string(log[at+8:at+16]) == string(log[16:24]); at += size {
			frames++
		}
		log[damage(size, frames)] ^= 16
		file, errFile := os.Stat(to)
		errWrite := os.WriteFile(to+"-wal", log, 0o600)
		info, errLog := os.Stat(to + "-wal")
		note, errNote := os.ReadFile(path + ".lock")
		if err := errors.Join(errFile, errWrite, errLog, errNote); err != nil {
			t.Fatal(err)
		}
		if copied {
			return to
		}
		fields := strings.Fields(string(note))
		fields[0], fields[1] = identity(file), identity(info)
		if err := os.WriteFile(to+".lock", []byte(strings.Join(fields, " ")), 0o600); err != nil {
			t.Fatal(err)
		}
		return to
	}
	early := crashed(false, func(size, frames int) int { return walHeader + frames/3*size + 1000 })
	wantOpenError(t, early, ErrCorrupt, "later commits would be lost")
	if problems := inspect(t, early); !strings.Contains(problems, "later commits are lost") {
		t.Errorf("problems of a damaged log: %q", problems)
	}
	if problems := inspect(t, path); problems != "" {
		t.Errorf("problems while a server runs: %q", problems)
	}
	header := crashed(false, func(size, frames int) int { return walHeader + frames/3*size + 2 })
	wantOpenError(t, header, ErrCorrupt, "later commits would be lost")
	inCopy := crashed(true, func(size, frames int) int { return walHeader + frames/3*size + 1000 })
	wantOpenError(t, inCopy, ErrCorrupt, "later commits would be lost")
	inLast := func(size, frames int) int { return walHeader + (frames-1)*size + 1000 }
	if r := revision(t, openTest(t, Config{Path: crashed(false, inLast)})); r != revision(t, b)-1 {
		t.Errorf("with a torn last commit, the file is at revision %d", r)
	}
	if _, err := b.writer.queryInts("PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		t.Fatal(err)
	}
	wantOpenError(t, crashed(false, inLast), ErrCorrupt, "later commits would be lost") // the file has the last one
}

// TestDamagedSaltOrHeaderOfLog flips bits that make SQLite take a frame for the end of the log, or the log for empty.
func TestDamagedSaltOrHeaderOfLog(t *testing.T) {
	path := closedDatabase(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b := openTest(t, Config{Path: path})
	for i := range 20 {
		if err := write(b, fmt.Sprint("more", i), incompressible(300)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	frame := walHeader + 10*(frameHeader+4096)
	for what, at := range map[string]int{
		"nothing": -1, "magic": 1, "page size": 10, "salt": 17, "sum": 25, "first salt of a frame": frame + 9,
		"second salt of a frame": frame + 14,
	} {
		to := filepath.Join(t.TempDir(), "crashed")
		log := bytes.Clone(whole)
		if at >= 0 {
			log[at] ^= 16
		}
		if err := errors.Join(os.WriteFile(to, before, 0o600), os.WriteFile(to+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		if at >= 0 {
			wantOpenError(t, to, ErrCorrupt, "would be lost")
		} else if got, want := revision(t, openTest(t, Config{Path: to})), revision(t, b); got != want {
			t.Errorf("%s: revision %d, want %d", what, got, want)
		}
	}
}

// TestRefusedStart starts on a damaged file repeatedly, as a supervisor does, and after a start that was killed.
func TestRefusedStart(t *testing.T) {
	path := closedDatabase(t)
	b := openTest(t, Config{Path: path})
	id := binary.BigEndian.AppendUint64(nil, b.settings.ClusterID)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]int{"first page": 63, "settings": bytes.Index(whole, id) + 3} {
		flipInPlace(t, path, int64(at))
		for range 3 {
			wantOpenError(t, path, ErrCorrupt, "")
		}
		ctx, kill := context.WithCancel(t.Context())
		kill()
		if _, err := Open(ctx, Config{Path: path}); err == nil {
			t.Errorf("%s: a cancelled start succeeded", what)
		}
		wantOpenError(t, path, ErrCorrupt, "")
		flipInPlace(t, path, int64(at))
	}
}

// A start that is killed after it has copied the log of a crash leaves a file that only this program has written to.
func TestKilledStart(t *testing.T) {
	path, _ := crashed(t)
	file, errFile := os.Stat(path)
	log, errLog := os.Stat(path + "-wal")
	if errFile != nil || errLog != nil {
		t.Fatal(errFile, errLog)
	}
	note := fmt.Sprint(identity(file), " ", identity(log), " 0 0 ", ownPages, "\n")
	if err := os.WriteFile(path+".lock", []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	killed := &Backend{log: slog.Default(), path: path, lock: lock}
	defer func() { _ = lock.Close() }()
	if !writtenHere(path, lock) {
		t.Fatal("after the crash")
	}
	if err := killed.prepareOwn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("the log remains", err)
	}
	if !writtenHere(path, lock) {
		t.Error("the next start takes the file for another program's")
	}
}
