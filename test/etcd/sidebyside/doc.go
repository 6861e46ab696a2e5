// Package sidebyside sends the same requests to a real etcd and to the target (see package
// servers) and compares the answers.
//
// TestSideBySide plays random sequences: every kind of request with every option, over few keys so
// that they collide, by raw gRPC so that nothing is checked or completed by a client library.
// Answers, errors (code and message) and, once things have come to rest, everything each watch
// was sent must be equal. Only what has to differ is set aside: cluster, member and term numbers,
// the countdown of a lease, and the order among equals of a sorted range.
//
// Of several replicas (see package datastore) each request asks the next one: what one has answered, all
// must know. etcd promises that for linearizable requests only; the others follow such a one here (see spread).
//
// A step is drawn from (seed, number of the step) and from what etcd has answered so far, so a
// sequence can be replayed, and be shortened by leaving steps out. After a difference the
// sequence is shortened for a while on fresh servers, and the rest is printed as a reproduction.
//
// Environment:
//
//	SQLSTORE_TEST_SEED    replay this seed alone
//	SQLSTORE_TEST_STEPS   steps of a sequence (default 1500)
//	SQLSTORE_TEST_RUNS    random seeds to play besides the fixed one (default 1); more for a soak
//	SQLSTORE_TEST_SHRINK  how long to shorten a failing sequence (default 45s; 0 for not at all)
//	SQLSTORE_TEST_TARGET  etcd: hold etcd against itself
package sidebyside
