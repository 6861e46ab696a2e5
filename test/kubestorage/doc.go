// Package kubestorage runs Kubernetes' own storage tests against sqlstore: every test that
// k8s.io/apiserver/pkg/storage/testing exports, unchanged, through the two implementations that
// kube-apiserver is made of, the etcd3 store (TestStore) and the watch cache on top of it
// (TestWatchCache). TestComplete fails when that package exports a test that one of the two neither
// runs nor excludes with a reason.
//
//	go test ./...                                     # sqlstore on SQLite
//	SQLSTORE_TEST_TARGET=etcd go test ./...           # real etcd: proves the harness itself
//	SQLSTORE_TEST_DATASTORE=postgres go test .        # sqlstore on Postgres: see package datastore
//	SQLSTORE_TEST_REPLICAS=3                          # so many sqlstore servers over it, all used at once
//	SQLSTORE_TEST_PGBOUNCER=1                         # through a PgBouncer
//	SQLSTORE_TEST_ENDPOINT=host:port,host:port        # servers that already run, all used at once
//
// Kubernetes gives each of these tests an etcd of its own. Here they share one server: each test
// sees a directory of its own as if it were the whole key space (see directory). Tests that name
// revisions get a fresh server, or, where the servers cannot be started anew, a directory whose
// revisions are counted from its beginning. Servers must send periodic progress every second.
//
// On etcd v3.7.3 itself a watch test may fail, once in many runs, with "event received with
// PrevKv=nil": etcd notes that a watch wants previous values only after it has begun the watch, and
// an event that comes in between goes out without.
//
// Its dependencies are large, hence the module of its own.
package kubestorage
