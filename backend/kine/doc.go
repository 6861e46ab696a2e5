// Package kine reads databases of kine, k3s' shim that stores Kubernetes in SQLite, Postgres or MySQL, and writes them.
//
// It is no [backend.Backend]: no server runs on such a database. It is one table with a row for each write, whose id is
// the revision. What kine's clients see of it follows from a few rules, on which this package relies. They hold for
// kine 0.11 to 0.17:
//
//   - Of each name, kine lists the row with the highest id at or below the revision, unless that is deleted. It does
//     not look at prev_revision. A row that is created has its id as create revision, whatever its column says.
//   - The row named compact_rev_key is kine's own, and its prev_revision is the compacted revision. Compaction deletes
//     what is superseded at or below it, and the tombstones there. What kube-apiserver writes to compact_rev_key is
//     stored as compact_rev_key_apiserver, from kine 0.13.16 on, with its version before the value: 3|1234.
//   - Ids that a failed transaction has used, or that compaction has deleted, are missing. Where a watch meets such a
//     gap, kine fills it with a tombstone named gap-ID. Deleting a key that does not exist, or a second time, leaves a
//     tombstone, too. No list shows these, and nothing is deleted by them: they are gaps.
//   - There are no leases. A key that is put with a lease gets its number of seconds, which kine shows as the lease's
//     id, and it expires so long after it was written or after kine was started.
//   - Versions are not stored, and kine shows 0.
//   - MySQL compares names without regard to case and to spaces at the end.
package kine
