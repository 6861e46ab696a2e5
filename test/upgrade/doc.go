// Package upgrade tests upgrades under load from older versions, whose binaries it builds from the repository's
// history:
//
//   - TestRollingUpgrade replaces the replicas over one Postgres database, one after another, while old and new ones
//     serve clients side by side. Packages load and history of test/cluster describe the load and the checks.
//   - TestSQLite kills an old server, opens its file with the new one, and goes back. Package journal of the main
//     module describes the checks.
//
// Afterwards every row must have a checksum, and every row that the new version wrote a commit time.
//
// A shallow clone fetches the old commits from its remote "origin".
package upgrade
