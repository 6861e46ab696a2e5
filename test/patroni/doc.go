// Package patroni tests sqlstore the way users run it for high availability, with containers as hosts: three Postgres
// servers that Patroni keeps, in synchronous mode, and replicas of sqlstore over them, under load. Patroni's own store
// is a sqlstore on SQLite, which Patroni takes for an etcd: it keeps its leader's key under a lease and watches it over
// the JSON gateway.
//
// The primary is killed and comes back as a standby, the primary is moved by plan, and Patroni's store is killed and
// started again. Afterwards what clients were told is compared with the rows in the database and with what watches saw.
// docs/patroni.md describes the same set-up.
//
//	machine/  hosts: containers on a private network, the image of sqlstore
//	compose/  the repository's compose.yaml
//
// All of it takes a container engine. SQLSTORE_TEST_IMAGE names an image of sqlstore to test instead of one built of
// this module.
package patroni
