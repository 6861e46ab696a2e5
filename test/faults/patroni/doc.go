// Package patroni tests sqlstore in a typical high-availability set-up, with containers as hosts: three Postgres
// servers managed by Patroni, in synchronous mode, and replicas of sqlstore over them, under load. Patroni's own store
// is a sqlstore on SQLite, which Patroni uses as an etcd: it keeps its leader's key under a lease and watches it over
// the JSON gateway.
//
// The primary is killed and comes back as a standby, the primary is moved by a planned switchover, and Patroni's store
// is killed and restarted. Then the answers to clients are compared with the rows in the database and with what watches
// saw. docs/patroni.md describes the same set-up, and TestDocs runs its commands.
//
// Package compose tests the repository's compose.yaml. Everything needs a container engine. SQLSTORE_TEST_IMAGE names
// an image of sqlstore to test instead of one built from the sources.
package patroni
