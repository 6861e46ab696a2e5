package kine

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// raw is a row as kine has written it, or as nobody should have.
type raw struct {
	id               int64
	name             any
	created, deleted any
	create, prev     any
	lease            any
	value            any
}

// created, updated and deleted return rows that kine writes.
func created(id int64, name string) raw { return raw{id, name, 1, 0, 0, 0, 0, []byte(name)} }

func updated(id int64, name string, create, prev int64) raw {
	return raw{id, name, 0, 0, create, prev, 0, []byte(name)}
}

func deleted(id int64, name string, create, prev int64) raw {
	return raw{id, name, 0, 1, create, prev, 0, nil}
}

// compacted is the row with the compacted revision.
func compacted(revision int64) raw { return raw{1, compactKey, 1, 0, 0, revision, 0, []byte{}} }

// table makes a SQLite database with rows and returns its path. The tests with what kine itself writes are in
// test/moves.
func table(t *testing.T, rows ...raw) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	db := create(t, path, "mode=rwc")
	insert(t, db, rows...)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func create(t *testing.T, path, parameters string) *sql.DB {
	t.Helper()
	db, err := sqlite(path).open(parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, s := range append([]string{sqliteTable}, sqliteIndexes...) {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	// Damage is more than this index allows.
	if _, err := db.ExecContext(t.Context(), "DROP INDEX kine_name_prev_revision_uindex"); err != nil {
		t.Fatal(err)
	}
	return db
}

func insert(t *testing.T, db *sql.DB, rows ...raw) {
	t.Helper()
	for _, r := range rows {
		if _, err := db.ExecContext(t.Context(), `INSERT INTO kine (id, name, created, deleted, create_revision,
			prev_revision, lease, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.id, r.name, r.created, r.deleted, r.create,
			r.prev, r.lease, r.value); err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, path string) *Source {
	t.Helper()
	s, err := Open(t.Context(), Prefix+"sqlite://"+path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func collect(t *testing.T, rows func(context.Context, func(*backend.Row) error) error) ([]backend.Row, error) {
	t.Helper()
	var found []backend.Row
	err := rows(t.Context(), func(r *backend.Row) error {
		found = append(found, *r)
		return nil
	})
	return found, err
}

// errStop is what a test's function returns to end an import or an export.
var errStop = errors.New("stop")
