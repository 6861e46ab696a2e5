package schema

import (
	"database/sql"

	"github.com/jackc/pgx/v5/stdlib"
)

// dialect is what differs between the databases.
type dialect struct {
	// name is the folder of the migrations.
	name string
	// hasTable checks for the version table, in the schema where it would be created.
	hasTable string
	// hasKine checks there for kine's table; empty if another check refuses kine's databases.
	hasKine string
	// begin and lock keep all others from migrating until the transaction ends. holders returns who else holds locks,
	// after a lock timed out.
	begin   string
	lock    []string
	holders string
	// oldestProgram reads the oldest program that the schema supports; empty if programs cannot share the database.
	oldestProgram string
	// repair is the command to set the version by hand.
	repair string
}

const makeVersionTable = "CREATE TABLE IF NOT EXISTS " + versionTable + " (version INTEGER NOT NULL PRIMARY KEY, dirty "

var (
	sqliteDialect = &dialect{
		name:     "sqlite",
		hasTable: "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '" + versionTable + "'",
		begin:    "BEGIN IMMEDIATE",
		lock:     []string{makeVersionTable + "INTEGER NOT NULL)"},
		repair:   "sqlite3 FILE",
	}
	postgresDialect = &dialect{
		name: "postgres",
		hasTable: "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() " +
			"AND table_name = '" +
			versionTable + "'",
		hasKine: "SELECT count(*) FROM pg_class WHERE relname = 'kine' AND relkind IN ('r', 'p') " +
			"AND relnamespace = current_schema()::regnamespace",
		begin: "BEGIN ISOLATION LEVEL READ COMMITTED",
		lock: []string{
			"SET LOCAL statement_timeout = 0", "SET LOCAL lock_timeout = " + lockTimeout,
			makeVersionTable + "BOOLEAN NOT NULL)", "LOCK TABLE " + versionTable + " IN EXCLUSIVE MODE",
		},
		holders:       lockHolders,
		oldestProgram: "SELECT value FROM settings WHERE name = 'oldest_program'",
		repair:        "psql URL -c",
	}
)

const (
	// lockTimeout is how long a migration waits for a lock, in milliseconds. Others queue behind it, so it gives way
	// and tries again.
	lockTimeout = "3000"
	// lockHolders lists the holders of table locks in this schema, those with the longest transactions first.
	lockHolders = "SELECT format('process %s (%s, user %s, %s since %s): %s', a.pid, " +
		"COALESCE(NULLIF(a.application_name, ''), 'unnamed'), a.usename, a.state, " +
		"date_trunc('second', now() - a.xact_start), left(regexp_replace(a.query, '\\s+', ' ', 'g'), 100)) " +
		"FROM pg_stat_activity AS a " +
		"WHERE a.pid <> pg_backend_pid() AND a.datname = current_database() AND a.xact_start IS NOT NULL AND EXISTS " +
		"(SELECT 1 FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation WHERE l.pid = a.pid AND l.granted " +
		"AND c.relnamespace = current_schema()::regnamespace) ORDER BY a.xact_start LIMIT 3"
)

// dialectOf chooses the dialect by the driver that opened db: pgx means Postgres, any other SQLite.
func dialectOf(db *sql.DB) *dialect {
	if _, ok := db.Driver().(*stdlib.Driver); ok {
		return postgresDialect
	}
	return sqliteDialect
}
