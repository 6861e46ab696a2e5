// Package etcd is the root of the tests that compare sqlstore with a real etcd v3.7.3.
//
//	servers/     starts etcd and the target, and finds etcd's tools
//	sidebyside/  the same requests to both, random and from a table of errors, must get the same answers
//	gateway/     the same over JSON
//	clients/     etcdctl and etcdutl; a snapshot restored into etcd
//	readers/     the commands that show what a store holds, on etcd
//	restore/     sqlstore restore --keys, on etcd, SQLite and Postgres
//	users/       users and roles of the real binary: tokens, replicas, certificates, the audit log
//	hostile/     garbled, greedy and malformed requests, floods; a well-behaved client must still be served
//	crash/       SIGKILL under load, full disks
//
// Each package lists the environment variables that lengthen or repeat a run. SQLSTORE_TEST_TARGET=etcd replaces
// sqlstore with a second etcd, to test the tests.
package etcd
