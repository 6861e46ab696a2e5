// Package chaos runs three replicas over Patroni's Postgres for a long time, under a load like kube-apiserver's, while
// one or two faults at a time come and go in random order: replicas, Postgres, Patroni and its store are killed and
// frozen, networks are cut in one direction, disks fill, clocks are stepped, the primary moves by hand or by failure,
// replicas are upgraded to another version and back, and backups are under way.
//
// The run is divided into rounds. Each has its own load, and ends with all checks of test/cluster's package audit:
// histories are linearizable, no acknowledged write is lost, watches have no gap and no repeat, no lease ends early.
// After each fault, every replica must take writes within a bound, and Patroni's cluster must be whole again.
// Compaction follows the load. A report names all faults, how long they lasted, and how long clients waited.
//
// A seed determines the sequence of faults, their targets and durations; what happens in between varies.
//
// Environment:
//
//	SQLSTORE_TEST_CHAOS_DURATION  how long faults go on, for example 3h (default 2m)
//	SQLSTORE_TEST_CHAOS_FAULTS    a regular expression: only faults with such a name
//	SQLSTORE_TEST_CHAOS_REPORT    a directory for the report, which is always in the test's output
//	SQLSTORE_TEST_SEED            of the faults
//
// It needs Linux containers in which processes may have CAP_NET_ADMIN.
package chaos
