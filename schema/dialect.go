package schema

import (
	"database/sql"

	"github.com/jackc/pgx/v5/stdlib"
)

// dialect is what differs between the databases.
type dialect struct {
	// name is that of the folder of migrations.
	name string
	// hasTable asks whether the version table is there, in the schema that it would be made in.
	hasTable string
	// begin and lock keep all others from migrating until the transaction ends.
	begin string
	lock  []string
	// oldestProgram asks for the oldest program that the schema serves; empty when no two programs share the database.
	oldestProgram string
	// mend is how to set the version by hand.
	mend string
}

const makeVersionTable = "CREATE TABLE IF NOT EXISTS " + versionTable + " (version INTEGER NOT NULL PRIMARY KEY, dirty "

var (
	sqliteDialect = &dialect{
		name:     "sqlite",
		hasTable: "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '" + versionTable + "'",
		begin:    "BEGIN IMMEDIATE",
		lock:     []string{makeVersionTable + "INTEGER NOT NULL)"},
		mend:     "sqlite3 FILE",
	}
	postgresDialect = &dialect{
		name: "postgres",
		hasTable: "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = '" +
			versionTable + "'",
		begin:         "BEGIN ISOLATION LEVEL READ COMMITTED",
		lock:          []string{makeVersionTable + "BOOLEAN NOT NULL)", "LOCK TABLE " + versionTable + " IN EXCLUSIVE MODE"},
		oldestProgram: "SELECT value FROM settings WHERE name = 'oldest_program'",
		mend:          "psql URL -c",
	}
)

// dialectOf tells the dialect by the driver that db was opened with: pgx's is Postgres, any other SQLite.
func dialectOf(db *sql.DB) *dialect {
	if _, ok := db.Driver().(*stdlib.Driver); ok {
		return postgresDialect
	}
	return sqliteDialect
}
