// Package storage runs Kubernetes' own storage tests against sqlstore: every test that
// k8s.io/apiserver/pkg/storage/testing exports, unchanged, through the two implementations inside kube-apiserver, the
// etcd3 store (TestStore) and the watch cache on top of it (TestWatchCache). TestComplete fails if that package exports
// a test that one of the two neither runs nor excludes with a reason.
//
//	go test ./...                                     # sqlstore on SQLite
//	SQLSTORE_TEST_TARGET=etcd go test ./...           # real etcd: proves the harness itself
//	SQLSTORE_TEST_DATASTORE=postgres go test .        # sqlstore on Postgres: see package datastore
//	SQLSTORE_TEST_REPLICAS=3                          # number of sqlstore servers over it, all used at once
//	SQLSTORE_TEST_PGBOUNCER=1                         # through a PgBouncer
//	SQLSTORE_TEST_TARGET=host:port,host:port          # servers that already run, all used at once
//
// Kubernetes gives each of these tests its own etcd. Here they share one server: each test sees its own directory as if
// it were the whole key space (see directory). Tests that name revisions get a new server or, if the servers cannot be
// restarted, a directory whose revisions are counted from its beginning. Servers must send periodic progress every
// second.
//
// On etcd v3.7.3 itself a watch test may fail, once in many runs, with "event received with PrevKv=nil": etcd records
// that a watch wants previous values only after it has begun the watch, and an event in between is sent without one.
package storage
