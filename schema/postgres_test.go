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

	"github.com/sqlstore/sqlstore/test/support/pgserver"
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

// relations are all tables, indexes and views of the database.
func relations(t *testing.T, db *sql.DB) (names string) {
	t.Helper()
	err := db.QueryRow("SELECT COALESCE(string_agg(relkind::text || relname::text, ' ' ORDER BY relname), '') " +
		"FROM pg_class " +
		"WHERE relnamespace = current_schema()::regnamespace").Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestPostgresUpAndDown(t *testing.T) {
	ctx := context.Background()
	db := openPostgres(t, pgserver.Database(t))
	wantStatus(t, db, State{Newest: newestPostgres})
	for range 2 {
		if err := Up(ctx, db, nil); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, db, State{Version: newestPostgres, Newest: newestPostgres, Serves: 1})
	}
	if c, err := Measure(ctx, db); err != nil || c != (Contents{Revision: 1}) {
		t.Errorf("holds %+v, %v", c, err)
	}
	first := relations(t, db)
	if err := Down(ctx, db, newestPostgres); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, db, State{Newest: newestPostgres})
	if left := relations(t, db); left != "rschema_migrations ischema_migrations_pkey" {
		t.Errorf("left after going back: %s", left)
	}
	if err := Up(ctx, db, nil); err != nil || relations(t, db) != first {
		t.Errorf("%v, relations %s, then %s", err, first, relations(t, db))
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
		wantStatus(t, openPostgres(t, dsn), State{Version: newestPostgres, Newest: newestPostgres, Serves: 1})
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
	if err := Down(ctx, db, 1); !errors.Is(err, ErrNewer) {
		t.Errorf("going back from a version that it does not know: %v", err)
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

// TestPostgresServesVersion1 makes programs of version 1 continue, and restart, on the schema that this one has
// migrated to.
func TestPostgresServesVersion1(t *testing.T) {
	ctx := context.Background()
	db := openPostgres(t, pgserver.Database(t))
	upTo(t, db, 1)
	wantStatus(t, db, State{Version: 1, Newest: newestPostgres, Serves: 1})
	first := relations(t, db)
	exec(t, db, "INSERT INTO object_versions (resource_version, ordinal, key, deleted, create_revision, version, "+
		"lease, previous_version, batch, value) "+
		"VALUES (2, 0, 'a', false, 2, 1, 0, 0, 1, 'v')")
	exec(t, db, "UPDATE clock SET revision = 2")
	if err := Up(ctx, db, nil); err != nil {
		t.Fatal(err)
	}
	st, err := Status(ctx, db)
	if err != nil || st != (State{Version: newestPostgres, Newest: newestPostgres, Serves: 1}) {
		t.Errorf("status %+v, %v", st, err)
	}
	st.Newest = 1 // as a program of version 1 sees it
	if !st.Usable() {
		t.Errorf("a program of version 1 refuses %+v", st)
	}
	if err := Down(ctx, db, newestPostgres-1); err != nil || relations(t, db) != first {
		t.Errorf("%v, relations %s, were %s", err, relations(t, db), first)
	}
	if c, err := Measure(ctx, db); err != nil || c != (Contents{Revision: 2, Keys: 1, Versions: 1}) {
		t.Errorf("holds %+v, %v", c, err)
	}
}

// TestPostgresAllOrNothing makes a migration fail at its end, on a view that already exists.
func TestPostgresAllOrNothing(t *testing.T) {
	db := openPostgres(t, pgserver.Database(t))
	exec(t, db, "CREATE VIEW objects AS SELECT 1 AS one")
	if err := Up(context.Background(), db, nil); err == nil {
		t.Fatal("migrated over a view")
	}
	if left := relations(t, db); left != "vobjects" {
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
			"version, lease, previous_version, batch, value) "+
			"VALUES ($1, 0, $2, $3::bytea IS NULL, 2, 1, 0, 0, 1, $3)", revision, []byte(key), value)
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
	rows, err := db.Query("SELECT namespace, name, resource_version, text FROM objects ORDER BY key")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var namespace, name, text string
		var rv int64
		if err := rows.Scan(&namespace, &name, &rv, &text); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s|%s|%d|%s", namespace, name, rv, text))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
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
}

// TestPostgresLocked holds a lock that a migration needs: the migration gives up for now and names the holder.
func TestPostgresLocked(t *testing.T) {
	t.Parallel() // it waits most of its time
	db := openPostgres(t, pgserver.Database(t))
	upTo(t, db, 1)
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

// TestPostgresDeadlock reads the tables in another order than a migration locks them, as pg_dump may. The server ends
// the migration, which then tries again.
func TestPostgresDeadlock(t *testing.T) {
	t.Parallel() // it waits most of its time
	db := openPostgres(t, pgserver.Database(t))
	upTo(t, db, 5)
	dump, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dump.Rollback() }()
	lock := func(table string) {
		t.Helper()
		if _, err := dump.Exec("LOCK TABLE " + table + " IN ACCESS SHARE MODE"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dump.Exec("SET LOCAL deadlock_timeout = '1h'"); err != nil { // the migration finds the deadlock
		t.Fatal(err)
	}
	lock("object_versions")
	migrated := make(chan error, 1)
	go func() { migrated <- Up(t.Context(), db, nil) }()
	for holds := 0; holds == 0; {
		err := db.QueryRow("SELECT count(*) FROM pg_locks WHERE granted AND relation = 'clock'::regclass " +
			"AND mode = 'AccessExclusiveLock'").Scan(&holds)
		if err != nil {
			t.Fatal(err)
		}
	}
	lock("clock")
	if err := dump.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// TestPostgresLongKeysStay refuses to go back to a schema that cannot store existing keys.
func TestPostgresLongKeysStay(t *testing.T) {
	ctx := context.Background()
	db := openPostgres(t, pgserver.Database(t))
	if err := Up(ctx, db, nil); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "INSERT INTO object_versions (resource_version, ordinal, key, long_key, deleted, create_revision, "+
		"version, lease, previous_version, batch, value) "+
		"SELECT 2, 0, substr(k, 1, 2600) || sha256(k), k, false, 2, 1, 0, 0, 1, 'v' FROM "+
		"(SELECT convert_to(repeat('k', 3000), 'UTF8') AS k) AS l")
	err := Down(ctx, db, newestPostgres-3)
	if err == nil || !strings.Contains(err.Error(), "object_versions_no_long_key") {
		t.Errorf("going back with a long key: %v", err)
	}
	wantStatus(t, db, State{Version: newestPostgres, Newest: newestPostgres, Serves: 1})
	exec(t, db, "DELETE FROM object_versions")
	if err := Down(ctx, db, newestPostgres-3); err != nil {
		t.Error(err)
	}
}

// TestPostgresClockTurn runs a version 4 program's statements for the clock on the newest schema: they find its one row
// among the versions that an open snapshot keeps. Then it goes back to a primary key on id.
func TestPostgresClockTurn(t *testing.T) {
	ctx := context.Background()
	db := openPostgres(t, pgserver.Database(t))
	upTo(t, db, 4)
	clock := func() (shape string) {
		t.Helper()
		err := db.QueryRow("SELECT reloptions::text || relreplident::text || " +
			"(SELECT string_agg(pg_get_indexdef(indexrelid), ' ') FROM pg_index WHERE indrelid = c.oid) || " +
			"(SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid) || (SELECT count(*) " +
			"FROM information_schema.columns WHERE table_name = 'clock') " +
			"FROM pg_class AS c WHERE oid = 'clock'::regclass").Scan(&shape)
		if err != nil {
			t.Fatal(err)
		}
		return shape
	}
	first := clock()
	if err := Up(ctx, db, nil); err != nil {
		t.Fatal(err)
	}
	snapshot, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snapshot.Rollback() }()
	read := func(query string) (revision int64) {
		t.Helper()
		if err := snapshot.QueryRow(query).Scan(&revision); err != nil {
			t.Fatal(err)
		}
		return revision
	}
	read("SELECT revision FROM clock")
	for want := int64(1); want <= 300; want++ {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		var revision int64
		err = tx.QueryRow("SELECT c.revision FROM clock AS c WHERE c.id = 1 FOR UPDATE").Scan(&revision)
		if err != nil || revision != want {
			t.Fatalf("locked revision %d, %v; want %d", revision, err, want)
		}
		res, err := tx.Exec("UPDATE clock SET revision = $1::bigint WHERE id = 1", want+1)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			t.Fatalf("moved %d rows, %v", n, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := Measure(ctx, db); err != nil || c != (Contents{Revision: 301}) {
		t.Errorf("holds %+v, %v", c, err)
	}
	if r := read("SELECT revision FROM clock WHERE id = 1 ORDER BY turn DESC LIMIT 1"); r != 1 {
		t.Errorf("the snapshot moved to revision %d", r)
	}
	if err := snapshot.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := Down(ctx, db, newestPostgres-4); err != nil || clock() != first {
		t.Errorf("%v, the clock is %s, was %s", err, clock(), first)
	}
	if c, err := Measure(ctx, db); err != nil || c != (Contents{Revision: 301}) {
		t.Errorf("holds %+v, %v", c, err)
	}
	_, err = db.Exec("INSERT INTO clock SELECT * FROM clock")
	if err == nil || !strings.Contains(err.Error(), "clock_pkey") {
		t.Errorf("another row: %v", err)
	}
}

// TestPostgresUpBesideWriter migrates while a program of version 2 is in the middle of a write: it locks the clock, and
// the table of rows once the migration already waits. Both finish.
func TestPostgresUpBesideWriter(t *testing.T) {
	ctx := t.Context()
	db := openPostgres(t, pgserver.Database(t))
	upTo(t, db, 2)
	writer, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback() }()
	if _, err := writer.Exec("SELECT revision FROM clock WHERE id = 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- Up(ctx, db, nil) }()
	for waits, holds := 0, 0; waits == 0; {
		err := db.QueryRow("SELECT count(*) FILTER (WHERE NOT granted AND relation = 'clock'::regclass), "+
			"count(*) FILTER (WHERE granted AND relation = 'object_versions'::regclass) FROM pg_locks "+
			"WHERE mode = 'AccessExclusiveLock'").Scan(&waits, &holds)
		if err != nil || holds > 0 {
			t.Fatalf("the migration holds what the writer needs, and waits for the writer: %d, %v", holds, err)
		}
	}
	for _, query := range []string{
		"INSERT INTO object_versions (resource_version, ordinal, key, deleted, create_revision, version, lease, " +
			"previous_version, batch, value) " +
			"VALUES (2, 0, 'a', false, 2, 1, 0, 0, 1, 'v')",
		"UPDATE clock SET revision = 2 WHERE id = 1",
	} {
		if _, err := writer.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
	if c, err := Measure(ctx, db); err != nil || c != (Contents{Revision: 2, Keys: 1, Versions: 1}) {
		t.Errorf("holds %+v, %v", c, err)
	}
}

// TestPostgresChecksumsBegin is TestChecksumsBegin from version 5, and a program of that version writes on.
func TestPostgresChecksumsBegin(t *testing.T) {
	db := openPostgres(t, pgserver.Database(t))
	upTo(t, db, 5)
	const insert = "INSERT INTO object_versions (resource_version, ordinal, key, deleted, create_revision, version, " +
		"lease, previous_version, batch, value) VALUES ($1::bigint, 0, decode($1::text, 'escape'), false, 2, 1, 0, " +
		"0, 1, 'v')"
	exec(t, db, insert, 2)
	exec(t, db, "UPDATE clock SET revision = 2 WHERE id = 1")
	var before, after string
	const file = "SELECT pg_relation_filepath('object_versions')"
	if err := db.QueryRow(file).Scan(&before); err != nil {
		t.Fatal(err)
	}
	if err := Up(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(file).Scan(&after); err != nil || after != before {
		t.Errorf("the table was rewritten from %s to %s, %v", before, after, err)
	}
	exec(t, db, insert, 3)
	exec(t, db, "UPDATE clock SET revision = 3 WHERE id = 1")
	exec(t, db, insert, 4)
	exec(t, db, "UPDATE object_versions SET written_at = 1795442580123 WHERE resource_version = 4")
	var since, next int64
	if err := db.QueryRow("SELECT since, next_version FROM checksums").Scan(&since, &next); err != nil || since != 2 ||
		next != 0 {
		t.Errorf("since %d, next %d, %v", since, next, err)
	}
	wantTimes(t, db, "SELECT to_char(committed_at AT TIME ZONE 'UTC', 'HH24:MI:SS.MS') FROM objects ORDER BY "+
		"resource_version", "", "", "14:03:00.123")
	wantTimes(t, db, "SELECT to_char(v.committed_at AT TIME ZONE 'UTC', 'HH24:MI:SS.MS') FROM object_versions AS v "+
		"ORDER BY resource_version", "", "", "14:03:00.123")
}
