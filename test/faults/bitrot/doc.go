// Package bitrot flips random bits in the files of a database and checks that every answer of a server over it is
// correct or an error.
//
// A test fills a store with Kubernetes-like objects: creates, updates, deletes, transactions of several keys, leases, a
// compaction. It remembers everything that it has written. Then, in each round, it takes a fresh copy of the files,
// flips some bits, and reads everything: each key, lists in pages, keys, counts, the same at older revisions, and
// watches from older revisions. In half of the rounds the server starts on the damaged files; in the other half the
// bits flip while it runs, and Postgres is restarted for that, so that nothing comes from its memory.
//
// With SQLite, the bits are in the database file or in its write-ahead log. With Postgres, which has data_checksums
// off, they are in the files of sqlstore's tables, indexes and TOAST tables. A flip hits a random byte of all files, a
// random byte of one file or, in a page of a table, what describes the rows.
//
// A round with a wrong answer is repeated without the flips that docs/damage.md lists as not detected. If that has
// no wrong answer, the round is only counted; otherwise the test fails.
//
// TestEntriesThatLeadElsewhere damages which row an index entry of Postgres leads to, which must always be noticed.
//
// Environment:
//
//	SQLSTORE_TEST_LENGTH  how many bits TestSQLite and TestPostgres flip (default 100; thousands for a soak)
//	SQLSTORE_TEST_SEED    seed of the first round; a failure names that of its round
package bitrot
