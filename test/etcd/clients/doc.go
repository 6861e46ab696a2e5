// Package clients runs etcd's own command line tools, etcdctl and etcdutl, against the target (see package servers).
// Deterministic output must equal, byte for byte, what they print for a real etcd.
//
// With SQLSTORE_TEST_TARGET=etcd the target is a second etcd.
package clients
