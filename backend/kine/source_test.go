package kine

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:///x":                               "begins with",
		"kine+etcd://host":                          `"etcd" are not supported`,
		"kine+sqlite://relative":                    "absolute path",
		"kine+sqlite://":                            "absolute path",
		"kine+postgres://u:secret@host:port/db":     "port",
		"kine+postgres://u:secret@host/%zz":         "%zz",
		"kine+mysql://u:secret@host:port/db":        "port",
		"kine+mysql://u:secret@host/db?timeout=ab":  "ab",
		"kine+mysql://u:secret@tcp(host)/db?a&b":    "",
		"kine+mysql://u@host/db?sslrootcert=/none":  "no such file",
		"kine+mysql://u@host/db?sslcert=/none":      "belong together",
		"kine+mysql://u@host/db?tls=false&sslcert=": "tls=true",
	} {
		_, err := parse(url)
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has the password: %v", url, err)
		}
	}
	for url, want := range map[string]string{
		"kine+mysql://u:p%40@host:33/db?tls=true":     "u:p@@tcp(host:33)/db?tls=true",
		"kine+mysql://u@host":                         "u@tcp(host:3306)/kubernetes",
		"kine+mysql://u:p@tcp(host:33)/":              "u:p@tcp(host:33)/kubernetes",
		"kine+mysql://root@unix(/run/mysqld.sock)/db": "root@unix(/run/mysqld.sock)/db",
	} {
		d, err := parse(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if got := d.(maria).config.FormatDSN(); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
	if d, err := parse("Kine+SQLite:///A"); err != nil || d.(sqlite) != "/A" {
		t.Errorf("a scheme in upper case: %v, %v", d, err)
	}
	d, err := parse("kine+postgres://u@host:33?sslmode=disable")
	if err != nil || d.(postgres).config.Database != defaultDatabase {
		t.Errorf("Postgres without a database: %v, %v", d, err)
	}
}

func TestNoSource(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.db")
	db, err := sqlite(other).open("mode=rwc")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE t (i)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing"): "no such file",
		dir:                           "is a directory",
		text:                          "not a database",
		other:                         "no such table: kine",
		table(t):                      "is empty",
	} {
		s, err := Open(t.Context(), Prefix+"sqlite://"+path)
		if !errors.Is(err, backend.ErrSource) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", path, s, err, want)
		}
	}
}

// A source does not change while kine writes, it reads what a killed kine has left in the log, and it changes no file
// of the database.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := create(t, path, "mode=rwc&_journal_mode=WAL")
	insert(t, db, compacted(0), created(2, "/a"))
	s := open(t, path)
	insert(t, db, created(3, "/b"))
	for range 2 {
		if rows, err := collect(t, s.Rows); err != nil || shown(rows) != "/a@2 2/1" || s.Contents().Revision != 2 {
			t.Errorf("a running kine: %v, %v", shown(rows), err)
		}
	}
	killed := filepath.Join(t.TempDir(), "state.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(killed+suffix, b, 0o400)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, killed)
	if rows, err := collect(t, s.Rows); err != nil || shown(rows) != "/a@2 2/1 /b@3 3/1" {
		t.Errorf("a killed kine: %v, %v", shown(rows), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		before, err1 := os.ReadFile(path + suffix)
		after, err2 := os.ReadFile(killed + suffix)
		if err := errors.Join(err1, err2); err != nil || string(before) != string(after) {
			t.Errorf("the file %q has changed: %v", suffix, err)
		}
	}
	// SQLite does not follow a link, whoever asks, as it cannot create a file in a directory of others.
	if err := errors.Join(os.RemoveAll(killed+"-shm"), os.Symlink("elsewhere", killed+"-shm")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Prefix+"sqlite://"+killed); !errors.Is(err, backend.ErrSource) ||
		!strings.Contains(err.Error(), "WAL") {
		t.Errorf("a log that cannot be read: %v", err)
	}
}

// A damaged page is damage.
func TestDamagedFile(t *testing.T) {
	path := table(t, raw{2, "/a", 1, 0, 0, 0, 0, make([]byte, 100_000)})
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 1<<14), 1<<12); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Prefix+"sqlite://"+path)
	if err == nil {
		defer s.Close()
		_, err = collect(t, s.Rows)
	}
	if !errors.Is(err, backend.ErrDamagedSource) {
		t.Errorf("got %v", err)
	}
}

// The function's error ends the rows, and the source can be read again. There are more rows than a page has.
func TestRowsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db := create(t, path, "mode=rwc")
	const total = 2*page + 1
	if _, err := db.ExecContext(t.Context(), `
		WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO kine (id, name, created, deleted, create_revision, prev_revision, lease, value)
		SELECT i, '/' || i, 1, 0, 0, 0, 0, 'v' FROM n`, total+1); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	seen := 0
	err := s.Rows(t.Context(), func(*backend.Row) error {
		if seen++; seen == page+5 {
			return errStop
		}
		return nil
	})
	if !errors.Is(err, errStop) || seen != page+5 {
		t.Errorf("%d rows, then %v", seen, err)
	}
	for _, each := range []func() ([]backend.Row, error){
		func() ([]backend.Row, error) { return collect(t, s.Rows) },
		func() ([]backend.Row, error) { return collect(t, s.Newest) },
	} {
		if rows, err := each(); err != nil || len(rows) != total {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := collect(t, s.Rows); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("a closed source: %v", err)
	}
}
