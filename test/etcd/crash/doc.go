// Package crash kills the target (see package servers) with SIGKILL while many clients write, starts it again on the
// same files, and compares its contents with what it had acknowledged: see package durability.
//
// Of several replicas (see package datastore) one is killed at a time, while clients write through all of them: the
// others must continue, and all must show the same afterwards.
//
// One test kills the server repeatedly while it deletes what a compaction left behind: rows that are needed must stay,
// and the others must be gone in the end.
//
// The tests of a full disk and an unwritable directory need root, to mount a file system in memory. The test of a
// failing sync needs strace, which can inject such a failure into any process of the same user. They concern files, so
// they use SQLite whatever the environment says.
//
// Environment:
//
//	SQLSTORE_TEST_LENGTH  how often TestKill kills (default 5; thousands for a soak)
//	SQLSTORE_TEST_SEED    of the load and the moments of the kills; the order in which the server
//	                      receives concurrent requests still varies
//	SQLSTORE_TEST_TARGET  etcd: test the test
package crash
