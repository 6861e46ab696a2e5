// Package crash kills the target (see package servers) with SIGKILL while many clients write, starts
// it again on the same files, and compares what it then holds with what it had acknowledged:
//
//   - every acknowledged write is there, at the revision that its answer named;
//   - a write without an answer is there once or not at all, and one of several parts whole or not
//     at all; a refused one is not there;
//   - every revision has its events, and every event its write;
//   - watches that resume after the revision they saw last miss nothing and repeat nothing;
//   - ranges, at the newest and at older revisions, and leases agree with that history.
//
// Of several replicas (see package datastore) one is killed at a time, while clients write through all
// of them: the others must go on, and each tells the same afterwards.
//
// In one test the server is killed again and again while it deletes what a compaction left behind: what is needed must stay, what is
// not must go in the end.
//
// The full disk and the directory that cannot be written to are tested here, too; they need root,
// to mount a file system in memory. So is the sync that fails; that needs strace, with which any
// process of the same user can be made to see such a failure. These are a file's matters, and so SQLite's
// whatever the environment says.
//
// Environment:
//
//	SQLSTORE_TEST_KILLS   how often TestKill kills (default 5; thousands for a soak)
//	SQLSTORE_TEST_SEED    of the load and the moments of the kills; the order in which the server
//	                      meets concurrent requests still varies
//	SQLSTORE_TEST_TARGET  etcd: test the test
package crash
