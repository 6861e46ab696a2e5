package kine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Prefix begins the URLs of kine's databases.
const Prefix = "kine+"

// defaultDatabase is what kine calls its database if the URL names none.
const defaultDatabase = "kubernetes"

// dialect is a kind of database that kine stores in.
type dialect interface {
	// reader opens an existing database to read it.
	reader() (*sql.DB, error)
	// snapshot begins a transaction that reads from one snapshot, however long it takes.
	snapshot(ctx context.Context, db *sql.DB) (*sql.Tx, error)
	// explain adds what the operator can do to an error of the database, or that it is damage.
	explain(err error) error
	// same returns a string that is equal for names that the database does not distinguish.
	same(name string) string

	// write makes kine's table in a database that has none, or an empty one, and calls f. All changes take effect
	// together. Errors: [ErrNotEmpty], f's.
	write(ctx context.Context, f func(*sql.Tx) error) error
	// parameter returns the name of a statement's parameter, from 1.
	parameter(n int) string
	// link is the statement that copies what a row has of the one that it supersedes: its value and, if it is a
	// tombstone, the create revision.
	link() string
	// fits returns an error if the database cannot store a name.
	fits(name string) error
}

// parse returns the database that a URL names. Its errors show no password.
func parse(raw string) (dialect, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	scheme, ok := strings.CutPrefix(strings.ToLower(scheme), Prefix) // the case of a scheme does not matter
	if !ok || !found {
		return nil, fmt.Errorf("the URL of a kine database begins with %ssqlite://, %[1]spostgres:// or %[1]smysql://",
			Prefix)
	}
	rest = scheme + "://" + rest
	switch scheme {
	case "sqlite":
		return parseSQLite(rest)
	case "postgres", "postgresql":
		return parsePostgres(rest)
	case "mysql", "mariadb":
		return parseMySQL(rest)
	}
	return nil, fmt.Errorf("kine databases of %q are not supported, only sqlite, postgres and mysql", scheme)
}

// parseURL is url.Parse with an error that does not contain the URL.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err == nil {
		return u, nil
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return nil, fmt.Errorf("parse its URL: %w", err)
}
