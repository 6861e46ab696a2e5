// Package chaos runs three replicas over Patroni's Postgres for a long time, under a load like kube-apiserver's, while
// one or two faults at a time come and go in random order: replicas, Postgres, Patroni and its store are killed and
// frozen, networks are cut in one direction, disks fill up, clocks are stepped, the primary moves by switchover or
// failover, all replicas are restarted one by one, and backups run.
//
// The run is divided into rounds. Each has its own load, and ends with all checks of the package audit of
// test/faults/cluster: histories are linearizable, no acknowledged write is lost, watches have no gap and no repeat, no
// lease ends early. After each fault, every replica must acknowledge writes in time, and all of Patroni's nodes must
// become healthy. Compaction follows the load. A report lists all faults, how long they lasted, and how long clients
// waited.
//
// A seed determines the sequence of faults, their targets and durations; their exact timing varies.
//
// Environment:
//
//	SQLSTORE_TEST_LENGTH  minutes of faults (default 2)
//	SQLSTORE_TEST_PART    a regular expression that selects faults by name
//	SQLSTORE_TEST_KEEP    a directory for the report, which is also in the test's output
//	SQLSTORE_TEST_SEED    seed of the faults
//
// It needs Linux containers in which processes may have CAP_NET_ADMIN.
package chaos
