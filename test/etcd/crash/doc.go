// Package crash kills the target (see package servers) with SIGKILL while many clients write, starts it again on the
// same files, and compares its contents with what it had acknowledged:
//
//   - every acknowledged write is there, at the revision in its answer;
//   - a write without an answer is there once or not at all, and one of several parts completely or not at all;
//     a refused one is not there;
//   - every revision has its events, and every event its write;
//   - watches that resume after the last revision they saw miss nothing and repeat nothing;
//   - ranges, at the newest and at older revisions, and leases agree with that history.
//
// Of several replicas (see package datastore) one is killed at a time, while clients write through all of them: the
// others must continue, and all must show the same afterwards.
//
// In one test the server is killed again and again while it deletes what a compaction left behind: rows that are needed
// must stay, and the others must be gone in the end.
//
// The tests of a full disk and an unwritable directory need root, to mount a file system in memory. The test of a
// failing sync needs strace, which can inject such a failure into any process of the same user. They concern files, and
// so use SQLite whatever the environment says.
//
// Environment:
//
//	SQLSTORE_TEST_KILLS   how often TestKill kills (default 5; thousands for a soak)
//	SQLSTORE_TEST_SEED    of the load and the moments of the kills; the order in which the server
//	                      receives concurrent requests still varies
//	SQLSTORE_TEST_TARGET  etcd: test the test
package crash
