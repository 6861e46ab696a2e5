package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/mattn/go-sqlite3"
)

// newestVersion is the version of the newest migration.
const newestVersion = 7

// newestPostgres is the same for Postgres.
const newestPostgres = 8

func openDB(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "db"))
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

// schemaOf returns all definitions in the database.
func schemaOf(t *testing.T, db *sql.DB) (out []string) {
	t.Helper()
	rows, err := db.Query("SELECT type || ' ' || name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUpAndDown(t *testing.T) {
	ctx := context.Background()
	db := openDB(t)
	wantStatus(t, db, State{Newest: newestVersion})
	for range 2 { // the second finds nothing to do
		if err := Up(ctx, db, nil); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, db, State{Version: newestVersion, Newest: newestVersion})
	}
	first := schemaOf(t, db)
	for _, steps := range []int{0, newestVersion + 1, -1} {
		if err := Down(ctx, db, steps); err == nil {
			t.Errorf("went back %d steps", steps)
		}
	}
	if err := Down(ctx, db, newestVersion); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, db, State{Newest: newestVersion})
	if left := schemaOf(t, db); len(left) != 1 || left[0] != "table "+versionTable {
		t.Errorf("left after going back: %v", left)
	}
	if err := Up(ctx, db, nil); err != nil {
		t.Fatal(err)
	}
	if again := schemaOf(t, db); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("schema %v, then %v", first, again)
	}
}

// A migration may take long: the log shows its progress.
func TestMigrationIsLogged(t *testing.T) {
	db := openDB(t)
	upTo(t, db, 1)
	all := fmt.Sprintf("INFO schema migration started from=1 to=%d\n", newestVersion)
	for version := 2; version <= newestVersion; version++ {
		all += fmt.Sprintf("INFO schema migration step done version=%d\n", version)
	}
	all += fmt.Sprintf("INFO schema migration done version=%d\n", newestVersion)
	for _, want := range []string{all, ""} { // the second time there is nothing to do
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == "took" {
					return slog.Attr{}
				}
				return a
			},
		}))
		if err := Up(t.Context(), db, log); err != nil {
			t.Fatal(err)
		}
		got := strings.NewReplacer("level=", "", `msg="`, "", `" `, " ").Replace(out.String())
		if got != want {
			t.Errorf("logged:\n%swant:\n%s", got, want)
		}
	}
}

// upTo migrates like an older program, which knows only n versions.
func upTo(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	if err := run(context.Background(), db, slog.New(slog.DiscardHandler), func(m *migrate.Migrate) error {
		return m.Steps(n)
	}); err != nil {
		t.Fatal(err)
	}
}

// TestDataStays migrates a used database up and down again, with data of version 1.
func TestDataStays(t *testing.T) {
	ctx := context.Background()
	db := openDB(t)
	upTo(t, db, 1)
	exec(t, db, "INSERT INTO object_versions (id, resource_version, key, deleted, create_revision, version, lease, "+
		"previous_version, value) "+
		"VALUES (2 << 20, 2, 'a', 0, 2, 1, 7, 0, 'v')")
	exec(t, db, "INSERT INTO leases VALUES (7, 60)")
	exec(t, db, "UPDATE clock SET revision = 2")
	first := schemaOf(t, db)
	holds := func() {
		t.Helper()
		if c, err := Measure(ctx, db); err != nil || c != (Contents{Revision: 2, Keys: 1, Versions: 1, Leases: 1}) {
			t.Errorf("holds %+v, %v", c, err)
		}
	}
	for range 2 {
		if err := Up(ctx, db, nil); err != nil {
			t.Fatal(err)
		}
		holds()
		exec(t, db, "INSERT INTO token_keys VALUES (1, 'k', 0)")
		if err := Down(ctx, db, newestVersion-1); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, db, State{Version: 1, Newest: newestVersion})
		holds()
		if left := schemaOf(t, db); fmt.Sprint(left) != fmt.Sprint(first) {
			t.Errorf("schema %v, was %v", left, first)
		}
	}
}

func TestRefused(t *testing.T) {
	ctx := context.Background()
	db := openDB(t)
	if err := Up(ctx, db, nil); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE schema_migrations SET version = version + 1")
	for _, err := range []error{Up(ctx, db, nil), Down(ctx, db, 1)} {
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), fmt.Sprint("version ", newestVersion+1)) ||
			!strings.Contains(err.Error(), fmt.Sprint("up to ", newestVersion)) {
			t.Error(err)
		}
	}
	exec(t, db, "UPDATE schema_migrations SET version = 2, dirty = 1")
	for _, err := range []error{Up(ctx, db, nil), Down(ctx, db, 1)} {
		if !errors.Is(err, ErrDirty) || !strings.Contains(err.Error(), "UPDATE schema_migrations") {
			t.Error(err)
		}
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
	wantStatus(t, db, State{Newest: newestVersion})
	if left := schemaOf(t, db); len(left) != 1 {
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
			"lease, previous_version, value) "+
			"VALUES (?1 << 20, ?1, ?2, ?3 IS NULL, 2, 1, 0, 0, ?3)", revision, []byte(key), value)
	}
	add("/registry/pods/default/nginx", []byte("old"))
	add("/registry/pods/default/gone", []byte("v"))
	add("plain", []byte("p"))
	add("/registry/pods/default/nginx", []byte("new"))
	add("/registry/pods/default/gone", nil)
	add("/registry/namespaces/", []byte("n"))
	if c, err := Measure(context.Background(), db); err != nil || c.Keys != 3 || c.Versions != 6 || c.Revision != 1 ||
		c.Leases != 0 {
		t.Errorf("holds %+v, %v", c, err) // the rows were added without moving the clock
	}
	rows, err := db.Query("SELECT namespace, name, resource_version, CAST(value AS TEXT) FROM objects ORDER BY key")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var namespace, name, value string
		var rv int64
		if err := rows.Scan(&namespace, &name, &rv, &value); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s|%s|%d|%s", namespace, name, rv, value))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	want := "[/registry/namespaces/||7|n /registry/pods/default/|nginx|5|new |plain|4|p]"
	if fmt.Sprint(got) != want {
		t.Errorf("objects %v, want %s", got, want)
	}
}

// TestChecksumsBegin migrates rows of version 2: they have no checksum and no time, the migration notes where they end,
// and the view shows the time of newer ones.
func TestChecksumsBegin(t *testing.T) {
	db := openDB(t)
	upTo(t, db, 2)
	const insert = "INSERT INTO object_versions (id, resource_version, key, deleted, create_revision, version, " +
		"lease, previous_version, value) VALUES (?1 << 20, ?1, 'a' || ?1, 0, ?1, 1, 0, 0, 'v')"
	exec(t, db, insert, 2)
	exec(t, db, "UPDATE clock SET revision = 2")
	if err := Up(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	exec(t, db, insert, 3)
	exec(t, db, "UPDATE object_versions SET written_at = 1795442580123 WHERE resource_version = 3")
	var since, next int64
	if err := db.QueryRow("SELECT since, next_row FROM checksums").Scan(&since, &next); err != nil || since != 2 ||
		next != 0 {
		t.Errorf("since %d, next %d, %v", since, next, err)
	}
	for _, from := range []string{"objects", "object_versions"} {
		wantTimes(t, db, "SELECT committed_at FROM "+from+" ORDER BY resource_version", "", "2026-11-23T14:03:00.123Z")
	}
}

// wantTimes compares the one column of a query, where NULL is "".
func wantTimes(t *testing.T, db *sql.DB, query string, want ...string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var s sql.NullString
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s.String)
	}
	if err := rows.Err(); err != nil || !slices.Equal(got, want) {
		t.Errorf("times %q, %v; want %q", got, err, want)
	}
}
