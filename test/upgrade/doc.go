// Package upgrade tests upgrades from released versions, whose binaries it builds from the repository's history, under
// load:
//
//   - TestRollingUpgrade replaces the replicas over one Postgres database, one after another, while old and new ones
//     serve clients side by side. Packages load and history of test/cluster say what clients do and what is checked.
//   - TestSQLite kills an old server, opens its file with the new one, and goes back. Package journal of the main
//     module says what is checked.
//
// Afterwards every row must have a checksum, and every row of the new version a commit time.
//
// A shallow clone fetches the old commits from its remote "origin".
package upgrade
