// Package etcd is the root of the tests that hold sqlstore against a real etcd v3.7.3, in a module
// of their own because of what etcd's server depends on.
//
//	servers/     starts etcd and the target, and finds etcd's tools
//	sidebyside/  the same requests to both, random ones and a table of errors: the same answers
//	gateway/     the same over JSON
//	clients/     etcdctl and etcdutl at work; a snapshot restored into etcd
//	hostile/     garbled, greedy and malformed requests, floods; a client that must keep its service meanwhile
//	crash/       SIGKILL under load, full disks
//
// Each package says which environment variables make it run longer, or repeat a run.
// SQLSTORE_TEST_TARGET=etcd puts a second etcd in sqlstore's place, to test the tests.
package etcd
