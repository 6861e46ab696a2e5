package moves

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/moves/server"
)

// database is a kind of database that kine can use.
type database struct {
	name string
	// create makes an empty database, and returns how kine and sqlstore name it.
	create func(t *testing.T) (endpoint, url string)
	// open connects to it, given kine's name.
	open func(t *testing.T, endpoint string) *sql.DB
	// gap uses up a revision, as a transaction does that fails; empty if the database would not.
	gap []string
}

func databases(top *testing.T) []database {
	var maria *server.MariaDB // one for all tests below top
	return []database{
		{
			name: "sqlite",
			create: func(t *testing.T) (endpoint, url string) {
				path := filepath.Join(t.TempDir(), "state.db")
				return "sqlite://" + path + "?_journal_mode=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate",
					kine.Prefix + "sqlite://" + path
			},
			open: func(t *testing.T, endpoint string) *sql.DB {
				path, _, _ := strings.Cut(strings.TrimPrefix(endpoint, "sqlite://"), "?")
				return open(t, "sqlite3", (&url.URL{Scheme: "file", Path: path}).String())
			},
		},
		{
			name: "postgres",
			create: func(t *testing.T) (endpoint, url string) {
				dsn := pgserver.Database(t)
				return dsn, kine.Prefix + dsn
			},
			open: func(t *testing.T, endpoint string) *sql.DB { return open(t, "pgx", endpoint) },
			gap:  []string{"SELECT nextval('kine_id_seq')"},
		},
		{
			name: "mariadb",
			create: func(t *testing.T) (endpoint, url string) {
				if maria == nil {
					maria = server.StartMariaDB(top)
				}
				user, place, _ := strings.Cut(maria.Database(t), "@")
				address, name, _ := strings.Cut(place, "/")
				endpoint = "mysql://" + user + "@tcp(" + address + ")/" + name
				return endpoint, kine.Prefix + "mysql://" + user + "@" + place
			},
			open: func(t *testing.T, endpoint string) *sql.DB {
				return open(t, "mysql", strings.TrimPrefix(endpoint, "mysql://"))
			},
			gap: []string{"BEGIN", "INSERT INTO kine (name) VALUES ('/lost')", "ROLLBACK"},
		},
	}
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // for BEGIN
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
