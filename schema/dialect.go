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
	// begin and lock keep all others from migrating until the transaction ends. holders asks who else holds locks, when
	// one was not to be had in time.
	begin   string
	lock    []string
	holders string
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
		hasTable: "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() " +
			"AND table_name = '" +
			versionTable + "'",
		begin: "BEGIN ISOLATION LEVEL READ COMMITTED",
		lock: []string{
			"SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = " + lockTimeout,
			makeVersionTable + "BOOLEAN NOT NULL)", "LOCK TABLE " + versionTable + " IN EXCLUSIVE MODE",
		},
		holders:       lockHolders,
		oldestProgram: "SELECT value FROM settings WHERE name = 'oldest_program'",
		mend:          "psql URL -c",
	}
)

const (
	// lockTimeout is how long a migration waits for a lock, in milliseconds. What comes behind it waits for it as well,
	// so it gives others their turn and tries again.
	lockTimeout = "3000"
	// lockHolders are those who hold locks of tables in this schema, those first that have held them for longest.
	lockHolders = "SELECT format('process %s (%s, user %s, %s since %s): %s', a.pid, " +
		"COALESCE(NULLIF(a.application_name, ''), 'unnamed'), a.usename, a.state, " +
		"date_trunc('second', now() - a.xact_start), left(regexp_replace(a.query, '\\s+', ' ', 'g'), 100)) " +
		"FROM pg_stat_activity AS a " +
		"WHERE a.pid <> pg_backend_pid() AND a.datname = current_database() AND a.xact_start IS NOT NULL AND EXISTS " +
		"(SELECT 1 FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation WHERE l.pid = a.pid AND l.granted " +
		"AND c.relnamespace = current_schema()::regnamespace) ORDER BY a.xact_start LIMIT 3"
)

// dialectOf tells the dialect by the driver that db was opened with: pgx's is Postgres, any other SQLite.
func dialectOf(db *sql.DB) *dialect {
	if _, ok := db.Driver().(*stdlib.Driver); ok {
		return postgresDialect
	}
	return sqliteDialect
}
