package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/backend/sqlite"
)

// sourceForms says how to name a source.
const sourceForms = "a snapshot file, http(s)://host:2379, sqlite:///path, postgres://user@host/database, or kine+ " +
	"and the URL of kine's database"

// kineForms says how to name a database of kine.
const kineForms = "kine+sqlite:///path, kine+postgres://user@host/database or kine+mysql://user@host/database"

// checkSourceFile returns what to write instead, if a name without a scheme names no file of etcd. It returns nil for
// what only the reader of etcd's files can judge.
func checkSourceFile(name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist) && isAddress(name):
		return fmt.Errorf("%w: --from %s has no scheme: write http://%[2]s, or https://%[2]s for a server with TLS",
			errSettings, name)
	case err != nil && mayHoldPassword(name): // and so does the system's message
		return fmt.Errorf("%w: --from is no file, and no URL: give %s", errSettings, sourceForms)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("--from: %w: give %s", err, sourceForms)
	case err != nil:
		return fmt.Errorf("--from: %w", err)
	case info.IsDir():
		if inside := sourceIn(name); inside != "" {
			return fmt.Errorf("%w: --from %s is a directory: write %s", errSettings, name, inside)
		}
		return fmt.Errorf("%w: --from %s is a directory, and not etcd's, which contains member/snap/db: give %s; what "+
			"--backup-to has saved is for 'sqlstore restore'", errSettings, name, sourceForms)
	case isSQLite(name):
		path := resolvedPath(name)
		return fmt.Errorf("%w: --from %s is a SQLite database: write sqlite://%s if it is sqlstore's, or "+
			"%ssqlite://%[3]s if it is kine's", errSettings, name, path, kine.Prefix)
	}
	return nil
}

// mayHoldPassword reports whether a text that is no URL may be a mistyped one with a password, or another form of a
// DSN.
func mayHoldPassword(text string) bool {
	return strings.Contains(text, "@") || strings.Contains(strings.ToLower(text), "password=")
}

// isAddress reports whether a name is host:port.
func isAddress(name string) bool {
	_, port, err := net.SplitHostPort(name)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// sourceIn returns how to name the source in a directory, "" if there is none.
func sourceIn(dir string) string {
	dir = resolvedPath(dir)
	for _, known := range []struct{ file, prefix string }{
		{"snap/db", ""},
		{"db", ""}, // of etcd's directory member
		{"sqlstore.db", "sqlite://"},
		{"state.db", kine.Prefix + "sqlite://"},
		{"server/db/state.db", kine.Prefix + "sqlite://"}, // k3s
	} {
		if path := filepath.Join(dir, known.file); isFile(path) {
			return known.prefix + path
		}
	}
	return ""
}

func isSQLite(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var header [16]byte
	_, err = f.ReadAt(header[:], 0)
	return err == nil && bytes.HasPrefix(header[:], []byte("SQLite format 3"))
}

// checkSQLiteURL refuses a URL with a relative path, which has a host in the place of the first element.
func checkSQLiteURL(flag, name string) error {
	scheme, rest, _ := strings.Cut(name, "://")
	isSQLite := strings.TrimPrefix(strings.ToLower(scheme), kine.Prefix) == "sqlite"
	if !isSQLite || strings.HasPrefix(rest, "/") {
		return nil
	}
	path, err := filepath.Abs(rest)
	if err != nil || rest == "" {
		path = "/path/to/file"
	}
	return fmt.Errorf("%w: --%s %s has no absolute path: write %s://%s", errSettings, flag, name, scheme, path)
}

// ofKine tells that a SQLite file which is not sqlstore's may be kine's.
func ofKine(from string, err error) error {
	if !errors.Is(err, sqlite.ErrNotSQLStore) {
		return err
	}
	return fmt.Errorf("%w; if it is kine's, write --from %s%s", err, kine.Prefix, from)
}

// unknownKind says what to write in the place of a source with a scheme that is none.
func unknownKind(scheme string) error {
	if scheme == "mysql" || scheme == "mariadb" {
		return fmt.Errorf("%w: --from: only kine stores in %s: write its URL as %s%[2]s://user:password@host/database",
			errSettings, scheme, kine.Prefix)
	}
	return fmt.Errorf("%w: --from has the unknown kind %s://: give %s", errSettings, scheme, sourceForms)
}

// checkExportTarget refuses what is not the URL of a database of kine.
func checkExportTarget(to string) error {
	scheme, _, isURL := strings.Cut(to, "://")
	switch scheme = strings.ToLower(scheme); {
	case strings.HasPrefix(scheme, kine.Prefix):
		return checkSQLiteURL("to", to)
	case to == "":
		return fmt.Errorf("%w: --to is required: %s", errSettings, kineForms)
	case scheme == "http", scheme == "https", isAddress(to):
		return fmt.Errorf("%w: --to is the database of a kine; to etcd, 'etcdctl snapshot save' and 'etcdutl snapshot "+
			"restore' lead", errSettings)
	case isURL:
		return fmt.Errorf("%w: --to has the unknown kind %s://: write %s before the URL of kine's database, as in "+
			"%s", errSettings, scheme, kine.Prefix, kineForms)
	}
	if mayHoldPassword(to) {
		return fmt.Errorf("%w: --to is not a URL: write %s", errSettings, kineForms)
	}
	return fmt.Errorf("%w: --to %s is not a URL: write %ssqlite://%s", errSettings, to, kine.Prefix, resolvedPath(to))
}
