// Package sqlstore serves the etcd v3.7 API and keeps every version of every object as a row in a SQL table.
//
// This package is the way to run it inside a Go program, or in a test: [Start] opens the database, the engine over it
// and the listeners, and returns in milliseconds. The command in cmd/sqlstore is a wrapper around it.
//
// The folders below it, each importing only what comes after it: etcdshim (the etcd API) and internal/restapi (the
// list/watch API over HTTP/JSON), paging (chunks and resource versions), compactor (when to compact), internal/store
// (the engine), backend (the interface of a database), backend/sqlite and backend/postgres, schema (the tables).
//
// # Processes
//
// A SQLite database belongs to one process at a time; a second one is refused. On it a [Server] whose Done channel is
// closed can acknowledge no more writes (its disk failed in a way that leaves a commit's outcome unknown): the process
// should end and be started again.
//
// A Postgres database may be served by any number of processes: each is a member of the cluster that clients see, and
// one of them does the maintenance. They wait for a database that is out of reach, and need no restart.
package sqlstore
