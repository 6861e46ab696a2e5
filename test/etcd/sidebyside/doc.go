// Package sidebyside sends the same requests to a real etcd and to the target (see package
// servers) and compares the answers.
//
// TestSideBySide plays random sequences: every kind of request with every option, over few keys so that they collide,
// and over raw gRPC so that no client library checks or completes them. Answers, errors (code and message) and, once
// both servers are idle, everything that each watch received must be equal. Only what must differ is ignored: cluster,
// member and term numbers, the remaining time of a lease, and the order of equal elements in a sorted range.
//
// With several replicas (see package datastore), requests go to them in turn: what one has answered, all must know.
// etcd promises that for linearizable requests only, so a linearizable read precedes the others here (see spread).
//
// A step is drawn from (seed, number of the step) and from what etcd has answered so far, so a sequence can be
// replayed, and shortened by omitting steps. After a difference the test shortens the sequence on new servers for a
// while, and prints the rest as a reproduction.
//
// TestAuthSideBySide does the same with users and roles, which administrators change meanwhile, and TestRights compares
// both servers with a model of the rights.
//
// Environment:
//
//	SQLSTORE_TEST_SEED    replay only this seed
//	SQLSTORE_TEST_LENGTH  random seeds to play besides the fixed one (default 1); more for a soak
//	SQLSTORE_TEST_TARGET  etcd: compare etcd with itself
package sidebyside
