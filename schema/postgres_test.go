package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

func openPostgres(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
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

func TestPostgresUp(t *testing.T) {
	db := openPostgres(t, pgserver.Database(t))
	wantStatus(t, db, State{Newest: 1})
	for range 2 {
		if err := Up(t.Context(), db, nil); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, db, State{Version: 1, Newest: 1, Serves: 1})
	}
}

// TestPostgresUpByMany migrates over eight connections concurrently: one does the work, all succeed.
func TestPostgresUpByMany(t *testing.T) {
	for _, params := range []string{"", "&default_query_exec_mode=exec"} {
		dsn := pgserver.Database(t) + params
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 8 {
			db := openPostgres(t, dsn)
			if err := db.Ping(); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				<-start
				if err := Up(context.Background(), db, nil); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		wantStatus(t, openPostgres(t, dsn), State{Version: 1, Newest: 1, Serves: 1})
	}
}

// TestPostgresServesOlder starts a program on the schema of a newer one.
func TestPostgresServesOlder(t *testing.T) {
	ctx := context.Background()
	db := openPostgres(t, pgserver.Database(t))
	if err := Up(ctx, db, nil); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE schema_migrations SET version = 99")
	if err := Up(ctx, db, nil); err != nil {
		t.Errorf("on a newer schema that serves it: %v", err)
	}
	exec(t, db, "UPDATE settings SET value = 99 WHERE name = 'oldest_program'")
	if err := Up(ctx, db, nil); !errors.Is(err, ErrNewer) {
		t.Errorf("on a newer schema that does not serve it: %v", err)
	}
	exec(t, db, "UPDATE schema_migrations SET version = 2, dirty = true")
	if err := Up(ctx, db, nil); !errors.Is(err, ErrDirty) {
		t.Errorf("on a dirty schema: %v", err)
	}
}

// TestPostgresAllOrNothing makes a migration fail at its end, on a view that already exists.
func TestPostgresAllOrNothing(t *testing.T) {
	db := openPostgres(t, pgserver.Database(t))
	exec(t, db, "CREATE VIEW objects AS SELECT 1 AS one")
	if err := Up(context.Background(), db, nil); err == nil {
		t.Fatal("migrated over a view")
	}
	if left := Definitions(t, db); !slices.Equal(left, []string{"v objects one"}) {
		t.Errorf("left of a migration that failed: %s", left)
	}
}

// TestPostgresObjects reads the view for people, with a key and a value that are not text.
func TestPostgresObjects(t *testing.T) {
	db := openPostgres(t, pgserver.Database(t))
	if err := Up(context.Background(), db, nil); err != nil {
		t.Fatal(err)
	}
	revision := int64(1)
	add := func(key string, value any) {
		revision++
		exec(t, db, "INSERT INTO object_versions (resource_version, ordinal, key, deleted, create_revision, "+
			"version, lease, previous_version, batch, value, checksum, written_at) "+
			"VALUES ($1, 0, $2, $3::bytea IS NULL, 2, 1, 0, 0, 1, $3, 0, 1795442580123)", revision, []byte(key), value)
	}
	add("/registry/pods/default/nginx", []byte("old"))
	add("/registry/pods/default/gone", []byte("v"))
	add("plain", []byte("p"))
	add("/registry/pods/default/nginx", []byte("new"))
	add("/registry/pods/default/gone", nil)
	add("/a/\xff\x00", []byte("\xfe\x00"))
	add("/b/ümlaut/€😀", []byte("tab\tand\nline: äöü €😀 \\ 'quoted'"))
	add("/b/x", []byte("k8s\x00\n\x03Pod"))
	// Bytes that resemble UTF-8: an overlong form, a surrogate, a code point beyond the last one, a truncated sequence.
	for i, value := range []string{
		"\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xf0\x8f\xbf\xbf", "\x80",
	} {
		add(fmt.Sprint("/c/", i), []byte(value))
	}
	got := strs(t, db, "SELECT format('%s|%s|%s|%s', namespace, name, resource_version, text) FROM objects "+
		"ORDER BY key")
	want := []string{
		`/a/|\377\000|7|\376\000`, "/b/|x|9|k8s\\000\n\x03Pod",
		"/b/ümlaut/|€😀|8|tab\tand\nline: äöü €😀 \\ 'quoted'",
		`/c/|0|10|\300\257`, `/c/|1|11|\340\200\257`, `/c/|2|12|\355\240\200`, `/c/|3|13|\364\220\200\200`,
		`/c/|4|14|\342\202`, `/c/|5|15|\360\217\277\277`, `/c/|6|16|\200`,
		"/registry/pods/default/|nginx|5|new", "|plain|4|p",
	}
	if !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	checkViews(t, db)
	exec(t, db, "INSERT INTO object_versions (resource_version, ordinal, key, long_key, deleted, create_revision, "+
		"version, lease, previous_version, batch, value, checksum, written_at) SELECT 99, 0, substr(k, 1, 2600) || "+
		"sha256(k), k, false, 99, 1, 0, 0, 1, 'v', 0, 0 FROM "+
		"(SELECT convert_to('/long/' || repeat('k', 3000), 'UTF8') AS k) AS l")
	long := strs(t, db, "SELECT namespace || name FROM objects WHERE octet_length(key) > 2600")
	if want := []string{"/long/" + strings.Repeat("k", 3000)}; !slices.Equal(long, want) {
		t.Errorf("long keys %q", long)
	}
	db.SetMaxOpenConns(1)
	exec(t, db, "SET enable_seqscan = off") // the table is small
	plan := strings.Join(strs(t, db, "EXPLAIN SELECT text_of(value) FROM object_versions WHERE key = 'plain'"), "\n")
	if !strings.Contains(plan, "Index Cond: (key =") {
		t.Errorf("a documented lookup: %s", plan)
	}
	for _, from := range []string{"objects", "object_versions"} {
		got := strs(t, db, "SELECT to_char(v.committed_at AT TIME ZONE 'UTC', 'HH24:MI:SS.MS') FROM "+from+" AS v "+
			"WHERE key = 'plain'")
		if want := []string{"14:03:00.123"}; !slices.Equal(got, want) {
			t.Errorf("times %q in %s, want %q", got, from, want)
		}
	}
}

// TestPostgresLocked holds a lock that a migration needs: the migration gives up for now and names the holder.
func TestPostgresLocked(t *testing.T) {
	t.Parallel() // it waits most of its time
	db := openPostgres(t, pgserver.Database(t))
	exec(t, db, "CREATE TABLE schema_migrations (version integer NOT NULL PRIMARY KEY, dirty boolean NOT NULL)")
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	on := func(query string) {
		t.Helper()
		if _, err := other.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	on("BEGIN")
	on("LOCK TABLE schema_migrations IN SHARE MODE") // its version can be read
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if err := Up(ctx, db, nil); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), "idle in transaction") || !strings.Contains(err.Error(), "IN SHARE MODE") {
		t.Errorf("a migration that gets no lock: %v", err)
	}
	on("ROLLBACK")
	if err := Up(t.Context(), db, nil); err != nil {
		t.Error(err)
	}
}
