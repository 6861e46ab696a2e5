package schema

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"
)

func openDB(t *testing.T) *sql.DB {
	t.Helper()
	return openSQLite(t, filepath.Join(t.TempDir(), "db"))
}

func openSQLite(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func wantStatus(t *testing.T, db *sql.DB, want State) {
	t.Helper()
	if got, err := Status(context.Background(), db); err != nil || got != want {
		t.Errorf("status %+v, %v; want %+v", got, err, want)
	}
}

func exec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// Definitions returns the names of all relations and columns in the database.
func Definitions(t *testing.T, db *sql.DB) []string {
	t.Helper()
	query := "SELECT m.type || ' ' || m.name || ' ' || x.name FROM sqlite_schema AS m, " +
		"pragma_table_xinfo(m.name) AS x ORDER BY 1"
	if dialectOf(db) == postgresDialect {
		query = "SELECT c.relkind::text || ' ' || c.relname || ' ' || a.attname FROM pg_class AS c " +
			"JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE c.relnamespace = current_schema()::regnamespace " +
			"AND a.attnum > 0 ORDER BY 1"
	}
	return strs(t, db, query)
}

// strs returns the only column of a query, where NULL is "".
func strs(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s sql.NullString
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUp(t *testing.T) {
	db := openDB(t)
	wantStatus(t, db, State{Newest: 1})
	for range 2 { // the second finds nothing to do
		if err := Up(t.Context(), db, nil); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, db, State{Version: 1, Newest: 1})
	}
}

func TestRefused(t *testing.T) {
	db := openDB(t)
	if err := Up(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE schema_migrations SET version = 2")
	if err := Up(t.Context(), db, nil); !errors.Is(err, ErrNewer) ||
		!strings.Contains(err.Error(), "at version 2, this program knows up to 1") {
		t.Error(err)
	}
	exec(t, db, "UPDATE schema_migrations SET version = 1, dirty = 1")
	if err := Up(t.Context(), db, nil); !errors.Is(err, ErrDirty) ||
		!strings.Contains(err.Error(), "UPDATE schema_migrations") {
		t.Error(err)
	}
}

// TestAllOrNothing makes a migration fail at its end, on a table that already exists.
func TestAllOrNothing(t *testing.T) {
	ctx := context.Background()
	db := openDB(t)
	exec(t, db, "CREATE VIEW objects AS SELECT 1")
	if err := Up(ctx, db, nil); err == nil || !strings.Contains(err.Error(), "objects") {
		t.Fatalf("error %v", err)
	}
	wantStatus(t, db, State{Newest: 1})
	if left := Definitions(t, db); !slices.Equal(left, []string{"view objects 1"}) {
		t.Errorf("left of a migration that failed: %v", left)
	}
	exec(t, db, "DROP VIEW objects")
	if err := Up(ctx, db, nil); err != nil {
		t.Error(err)
	}
}

// TestObjects reads the view for people.
func TestObjects(t *testing.T) {
	db := openDB(t)
	if err := Up(context.Background(), db, nil); err != nil {
		t.Fatal(err)
	}
	revision := int64(1)
	add := func(key string, value any) {
		revision++
		exec(t, db, "INSERT INTO object_versions (id, resource_version, key, deleted, create_revision, version, "+
			"lease, previous_version, value, checksum, written_at) "+
			"VALUES (?1 << 20, ?1, ?2, ?3 IS NULL, 2, 1, 0, 0, ?3, 0, 1795442580123)", revision, []byte(key), value)
	}
	add("/registry/pods/default/nginx", []byte("old"))
	add("/registry/pods/default/gone", []byte("v"))
	add("plain", []byte("p"))
	add("/registry/pods/default/nginx", []byte("new"))
	add("/registry/pods/default/gone", nil)
	add("/registry/namespaces/", []byte("n"))
	got := strs(t, db, "SELECT namespace || '|' || name || '|' || resource_version || '|' || CAST(value AS TEXT) "+
		"FROM objects ORDER BY key")
	want := []string{"/registry/namespaces/||7|n", "/registry/pods/default/|nginx|5|new", "|plain|4|p"}
	if !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	checkViews(t, db)
	for _, from := range []string{"objects", "object_history"} {
		got := strs(t, db, "SELECT committed_at FROM "+from+" WHERE key = CAST('plain' AS BLOB)")
		if want := []string{"2026-11-23 14:03:00.123"}; !slices.Equal(got, want) {
			t.Errorf("times %q in %s, want %q", got, from, want)
		}
	}
	var id, parent, unused int
	var plan string
	err := db.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN SELECT value FROM object_versions "+
		"WHERE key = CAST('plain' AS BLOB)").Scan(&id, &parent, &unused, &plan)
	if err != nil || !strings.HasPrefix(plan, "SEARCH ") || !strings.HasSuffix(plan, "(key=?)") {
		t.Errorf("a documented lookup: %q, %v", plan, err)
	}
}

// checkViews runs one statement that is documented for both databases, after a key "gone" was put and deleted.
func checkViews(t *testing.T, db *sql.DB) {
	t.Helper()
	got := strs(t, db, `SELECT namespace || '|' || name || '|' || resource_version || '|' || version || '|' || bytes
		|| '|' || coalesce(text, '-') FROM object_history
		WHERE key_text = '/registry/pods/default/gone' AND committed_at < '2100-01-01'
		ORDER BY resource_version, ordinal`)
	want := []string{"/registry/pods/default/|gone|3|1|28|v", "/registry/pods/default/|gone|6|1|27|-"}
	if !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
	got = strs(t, db, "SELECT key_text FROM object_history WHERE deleted")
	if want := []string{"/registry/pods/default/gone"}; !slices.Equal(got, want) {
		t.Errorf("deleted %q, want %q", got, want)
	}
	want = strings.Fields(`namespace name key_text resource_version create_revision version lease bytes text key value
		committed_at`)
	if got := columns(t, db, "objects"); !slices.Equal(got, want) {
		t.Errorf("objects has the columns %q, want %q", got, want)
	}
	want = slices.Insert(slices.Clone(want), 4, "ordinal", "deleted")
	if got := columns(t, db, "object_history"); !slices.Equal(slices.DeleteFunc(got, isID), want) {
		t.Errorf("object_history has the columns %q, want %q", got, want)
	}
}

func isID(column string) bool { return column == "id" }

func columns(t *testing.T, db *sql.DB, table string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table+" LIMIT 0")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err := errors.Join(err, rows.Err()); err != nil {
		t.Fatal(err)
	}
	return columns
}
