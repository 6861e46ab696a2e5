// Package powercut cuts the power of the disk under a server while clients write, thousands of times, and checks that
// the server, started again on what the disk still holds, has everything that it had acknowledged.
//
// Package disk simulates the disk and documents what a cut may take away, package mount mounts it, and package
// durability says what is checked. In addition, SQLite's integrity check must pass before each start, and the compacted
// revision must not fall below one that was acknowledged.
//
// A life begins with an empty disk and goes through several cuts, from each of which the next start recovers. A cut is
// aimed at an operation: a write to the log, a sync, the n-th operation of a start, of a purge, of a defragmentation,
// of a shutdown, and so on. The server continues for some milliseconds without its disk, or is killed at once.
//
// Under Postgres the disk is journaled, because Postgres needs that: it cannot recover from a cut that takes away the
// name of a new table's file, though the file was synced. Postgres and two replicas lose their power together.
//
// The tests need Linux with /dev/fuse and, for Postgres, root.
//
// Environment:
//
//	SQLSTORE_TEST_LENGTH  how often TestSQLite cuts the power (default 150; thousands for a soak); the tests on
//	                      Postgres do so a tenth as often
//	SQLSTORE_TEST_SEED    of the first life; a failure names that of its life, with which it repeats as closely as the
//	                      order of concurrent requests allows
//	SQLSTORE_TEST_KEEP    a directory that receives the disk of a failed life, as it was before the failed start
package powercut
