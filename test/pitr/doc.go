// Package pitr tests what other programs' restores to a point in time do to a store: pgBackRest's of a Postgres, and
// Litestream's of a SQLite file. It also runs the commands of docs/pitr.md.
package pitr
