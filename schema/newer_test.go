package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// second is the migration that only a newer program knows. Like every migration on Postgres, it locks the clock first.
var second = map[string]string{
	"sqlite":   "ALTER TABLE object_versions ADD COLUMN extra INTEGER; CREATE TABLE extras (id INTEGER);",
	"postgres": "LOCK TABLE clock; ALTER TABLE object_versions ADD COLUMN extra bigint; CREATE TABLE extras (id int);",
}

// BecomeNewer makes the test a newer program, which knows a second migration, until it ends or calls older.
func BecomeNewer(tb testing.TB) (older func()) {
	tb.Helper()
	older = func() { migrations = files }
	migrations = newer()
	tb.Cleanup(older)
	return older
}

func newer() fs.FS {
	all := fstest.MapFS{}
	for dialect, sql := range second {
		const first = "/0001_init.up.sql"
		content, err := files.ReadFile(dialect + first)
		if err != nil {
			panic(err)
		}
		all[dialect+first] = &fstest.MapFile{Data: content}
		all[dialect+"/0002_extra.up.sql"] = &fstest.MapFile{Data: []byte(sql)}
	}
	return all
}

// killMe makes the test binary a newer program that waits in the middle of its migration, after the statements and
// before the commit, until somebody kills it: DRIVER DSN follow.
const killMe = "-migrate-until-killed"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == killMe {
		migrations = newer()
		db, err := sql.Open(os.Args[2], os.Args[3])
		if err == nil {
			err = Up(context.Background(), db, slog.New(waiting{slog.DiscardHandler}))
		}
		fmt.Println("not waited:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// waiting is a log that says when a step of a migration is done, and never returns.
type waiting struct{ slog.Handler }

func (waiting) Enabled(context.Context, slog.Level) bool { return true }

func (waiting) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "schema migration step done" {
		fmt.Println("in the middle")
		select {}
	}
	return nil
}

// TestMigrationKilled kills a program in the middle of a migration: nothing of it is left, the data is untouched, and
// the next program migrates.
func TestMigrationKilled(t *testing.T) {
	for name, open := range map[string]func() (db *sql.DB, driver, dsn string){
		"sqlite": func() (*sql.DB, string, string) {
			path := t.TempDir() + "/db"
			return openSQLite(t, path), "sqlite3", path
		},
		"postgres": func() (*sql.DB, string, string) {
			dsn := pgserver.Database(t)
			return openPostgres(t, dsn), "pgx", dsn
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, driver, dsn := open()
			if err := Up(t.Context(), db, nil); err != nil {
				t.Fatal(err)
			}
			exec(t, db, "UPDATE clock SET revision = 7")
			before := Definitions(t, db)
			killInTheMiddle(t, driver, dsn)
			BecomeNewer(t)
			st, err := Status(t.Context(), db)
			if err != nil || st.Version != 1 || st.Newest != 2 || st.Dirty {
				t.Errorf("status %+v, %v", st, err)
			}
			if after := Definitions(t, db); !slices.Equal(after, before) {
				t.Errorf("schema %v, was %v", after, before)
			}
			if err := Up(t.Context(), db, nil); err != nil {
				t.Fatal(err)
			}
			if after := Definitions(t, db); !slices.ContainsFunc(after, func(s string) bool {
				return strings.Contains(s, "extras")
			}) {
				t.Errorf("schema %v after the next program", after)
			}
			var revision int64
			if err := db.QueryRow("SELECT revision FROM clock").Scan(&revision); err != nil || revision != 7 {
				t.Errorf("revision %d, %v", revision, err)
			}
		})
	}
}

func killInTheMiddle(t *testing.T, driver, dsn string) {
	t.Helper()
	c := osexec.CommandContext(t.Context(), os.Args[0], killMe, driver, dsn)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 200)
	n, err := out.Read(said)
	err = errors.Join(err, c.Process.Kill())
	_ = c.Wait() // it was killed
	if err != nil || string(said[:n]) != "in the middle\n" {
		t.Fatalf("the program said %q, %v", said[:n], err)
	}
}

// A migration may take long: the log shows its progress.
func TestMigrationIsLogged(t *testing.T) {
	db := openDB(t)
	if err := Up(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	BecomeNewer(t)
	const all = "INFO schema migration started from=1 to=2\nINFO schema migration step done version=2\n" +
		"INFO schema migration done version=2\n"
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

// TestPostgresDeadlock reads the tables in another order than a migration locks them, as pg_dump may. The server ends
// the migration, which then tries again.
func TestPostgresDeadlock(t *testing.T) {
	db := openPostgres(t, pgserver.Database(t))
	if err := Up(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	BecomeNewer(t)
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
