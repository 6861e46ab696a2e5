// Package simulation runs replicas, their clients and the database in one process and in virtual time, with faults that
// follow from a seed: see package world for what happens in a run and what is checked afterwards, and
// internal/testing/simdb for the database.
//
// A seed replays exactly. Each seed runs in a process of its own, on one processor, without garbage collection, and
// with a runtime that differs from Go's in six ways (runtime_test.go). In a bubble of testing/synctest, the random
// numbers behind select, maps, timers and math/rand follow from the seed, and mutexes see virtual time. The runtime's
// own locks draw no random numbers. Goroutines are not preempted. Their order does not depend on how many ran before.
// And a goroutine that waits for a mutex lets virtual time pass. The last is not only for the replay: stores hold
// mutexes while they wait for the database, which would stop the time of an ordinary bubble. TestReplay shows that a
// seed does the same twice: every request at the database and every answer, in the same order and at the same time.
//
// The simulation has no processes that stop together with their clock (SIGSTOP), no disk, and neither TCP nor SQL:
// test/faults/cluster has those.
//
// Environment:
//
//	SQLSTORE_TEST_LENGTH  minutes of TestSeeds (default 0.5; more for a soak); 0 runs one seed and shows its log
//	SQLSTORE_TEST_SEED    the first seed of TestSeeds (default 1), and which fix TestRevertedFixes reverts: the
//	                      remainder counts
//	SQLSTORE_TEST_WHOLE   set: TestRevertedFixes reverts each fix
package simulation
