package main_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// wantOutput runs a command and wants part in what it prints, and no error unless fails is set.
func wantOutput(t *testing.T, fails bool, part string, args ...string) {
	t.Helper()
	out, err := sqlstore(t, args...)
	if (err != nil) != fails || !strings.Contains(out, part) {
		t.Errorf("%v: %q, %v; want %q", args, out, err, part)
	}
}

// damage changes the value of the newest row of a database behind the server's back.
func damage(t *testing.T, driver, source string) {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("UPDATE object_versions SET version = version + 1 WHERE resource_version = " +
		"(SELECT max(o.resource_version) FROM object_versions AS o)")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestCheck verifies a database beside its server, before and after it is damaged, and asks when things were written.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	dsn := pgserver.Database(t)
	for name, c := range map[string]struct{ database, driver, source string }{
		"sqlite":   {"--data-dir=" + dir, "sqlite3", filepath.Join(dir, "sqlstore.db")},
		"postgres": {"--datastore=" + dsn, "pgx", dsn},
	} {
		t.Run(name, func(t *testing.T) {
			wantOutput(t, true, "sqlstore: ", "check", c.database)
			s := launch.Start(t, launch.Config{Args: []string{c.database}})
			client := connect(t, s.Endpoint())
			for range 3 {
				if _, err := client.Put(t.Context(), "k", "v"); err != nil {
					t.Fatal(err)
				}
			}
			wantOutput(t, false, "3 rows, 0 problems", "check", c.database)
			wantOutput(t, false, "revision 3, committed 2", "revision", c.database, "--of", "3")
			wantOutput(t, false, "revision 4, committed 2", "revision", c.database, "--at", "2100-01-01T00:00:00Z")
			wantOutput(t, true, "nothing was written then", "revision", c.database, "--at", "2000-01-01T00:00:00+01:00")
			wantOutput(t, true, "future revision", "revision", c.database, "--of", "5")
			wantOutput(t, true, "is not a time such as", "revision", c.database, "--at", "yesterday")
			wantOutput(t, true, "either --at or --of", "revision", c.database)
			if _, err := client.Compact(t.Context(), 4); err != nil {
				t.Fatal(err)
			}
			wantOutput(t, false, " 0 problems", "check", c.database)
			damage(t, c.driver, c.source)
			wantOutput(t, true, `the row of key "k" at revision 4 does not match its checksum`, "check", c.database)
		})
	}
}
