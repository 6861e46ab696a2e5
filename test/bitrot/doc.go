// Package bitrot flips random bits in the files of a database and checks that every answer of a server over it is
// correct or an error.
//
// A store is filled with objects like Kubernetes': creates, updates, deletes, transactions of several keys, leases, a
// compaction. The test knows all of it. Then, again and again, it takes a fresh copy of the files, flips some bits, and
// reads everything: each key, lists in pages, keys, counts, the same at older revisions, and watches from older
// revisions. In half of the rounds the server starts on the damaged files; in the other half the bits flip while it
// runs. Under Postgres that means that Postgres is restarted beside it, so that nothing comes from its memory.
//
// Under SQLite, the bits are in the file of the database or in its write-ahead log. Under Postgres, which has
// data_checksums off, they are in the files of sqlstore's tables, of their indexes and of what TOAST moves out. A flip
// hits a random byte of a random file, or a random byte of all files, or, in a page of a table, what describes the
// rows.
//
// A wrong answer is repeated without those flips that docs/corruption.md names as not detected: if it is right then, or
// an error, it is counted as such. Any other wrong answer fails the test.
//
// Environment:
//
//	SQLSTORE_TEST_FLIPS   how many bits TestSQLite and TestPostgres flip (default 100; thousands for a soak)
//	SQLSTORE_TEST_SEED    of the first round; a failure names that of its round
package bitrot
