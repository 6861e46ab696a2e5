package pagesum_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/mattn/go-sqlite3"
)

// connector opens connections with a driver that has a hook.
type connector struct {
	driver *sqlite3.SQLiteDriver
	dsn    string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }

func (c connector) Driver() driver.Driver { return c.driver }

// read returns a digest of all rows, read once from the table and once from the index.
func read(db *sql.DB) (digest string, err error) {
	rows, err := db.Query("SELECT v FROM t NOT INDEXED UNION ALL SELECT * FROM (SELECT v FROM t ORDER BY v)")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	n, h := 0, uint64(14695981039346656037)
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return "", err
		}
		n++
		for _, c := range []byte(v) {
			h = (h ^ uint64(c)) * 1099511628211
		}
	}
	return fmt.Sprintf("%d rows, %x", n, h), rows.Err()
}

// mustRead is read for a sound database.
func mustRead(t *testing.T, db *sql.DB) string {
	t.Helper()
	digest, err := read(db)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}
