// Package sqlstore serves the etcd v3.7 API and keeps every version of every object as a row in a SQL table.
//
// Use this package to run the server inside a Go program or a test. [Start] opens the database, the engine and the
// listeners, and returns within milliseconds. The command in cmd/sqlstore is a wrapper around this package.
//
// Each of these packages imports only those after it: etcdshim (the etcd API) and internal/restapi (the list/watch API
// over HTTP/JSON), paging (chunks and resource versions), compactor (when to compact), internal/store (the engine),
// backend (the interface to a database), backend/sqlite and backend/postgres, schema (the tables).
//
// # Processes
//
// One process at a time can open a SQLite database; a second one is refused. If the disk fails so that the outcome of a
// commit is unknown, the [Server] can acknowledge no more writes and closes its Done channel. The process should then
// exit and be restarted.
//
// Any number of processes may serve a Postgres database. Each is a member of the cluster that clients see, and one of
// them does the maintenance. They wait while the database is unreachable and need no restart.
package sqlstore
