package sqlite

import sqlite3 "github.com/mattn/go-sqlite3"

// LibraryVersion returns the version of the SQLite library that is linked into the program.
func LibraryVersion() string {
	version, _, _ := sqlite3.Version()
	return version
}
