// Command bench compares sqlstore with etcd, with kine on the same kind of database (SQLite or Postgres) and with a
// bare gRPC server under kube-apiserver's load, and prints a table of ratios.
//
// Method. Every server is a separate process, built from its Go module, on the same machine and file system in the same
// run. Each is filled with the same objects in the same shuffled order with fsync off, stopped, and started again with
// an fsync before every acknowledgement (which strace counts, if installed). From then on SIGSTOP keeps it stopped
// except while it is measured, so that idle servers cost nothing; the run verifies that. A phase is measured in short
// slices that alternate between the servers, forwards in one pair and backwards in the next (A B B A), so that drift of
// the machine affects all of them alike. Figures are medians over the pairs. A ratio is the median of the pairs' own
// ratios, with its minimum and maximum.
//
// CPU is the server process's own user and system time, read from its CLOCK_PROCESS_CPUTIME_ID (nanoseconds, including
// ended threads) before a slice and after it plus a short settling time, so that work postponed until after the answer
// counts as well. "Above bare" is that CPU minus the CPU of the bare server: a server that speaks the same messages,
// answers each call with a prepared reply of the same size and stores nothing. No server of this API on grpc-go can
// cost less.
//
// On Postgres (-datastore postgres) each server has its own Postgres server with default settings, from the machine's
// binaries or else in a container; sqlstore has one for each number of replicas, over which clients and their
// connections are spread evenly. Postgres is stopped and measured with all its processes. Its CPU is separate from the
// server's, which is that of all replicas together. Syncs are counted in Postgres's processes, and its settings are
// verified. kine is measured with its defaults, and with as many pooled connections as there are clients: by default it
// keeps opening new ones. The delay until a replica notifies its watchers of another replica's write is measured by
// updates through the first replica and watches at the others, in the client's process and so with one clock: from the
// acknowledgement of the update to the event.
//
// The load is closed loop (each client sends its next request when the last one is answered) and, in the phases named
// op@rate, open loop: requests are due at a fixed rate for all servers, and latency counts from when a request was due.
// In the closed loop a fast server gets more work at once, which makes each call cheaper for gRPC; the fixed rate shows
// CPU and latency at equal load. Every answer is checked: succeeded flags, revisions, keys, values, counts, order, and
// that each watcher saw every event once. A wrong answer ends the run, except that kine on Postgres sometimes loses an
// event, or cannot be compacted for a while: that is reported, and the slice omitted. Peak memory is the slice's VmHWM;
// the anonymous part is sampled as well, because etcd's file mapping fills the rest with page cache. "Other load" is
// what else ran on the machine, in processors: above a few percent the figures are noise.
//
// The phases no-compaction and compaction run only if -only names compaction. They are updates at -rate, without and
// with etcd's flags for periodic compaction (-retention), for -compaction-slice each after as much of the load as the
// first compaction takes; the two alternate in going first. Every two seconds the run reads each server's size and how
// many rows it has deleted. "While rows go" is the p99 of the updates that ended in an interval in which rows were
// deleted, and is what is compared; the sizes are the largest of each third of the slice. kine reports neither: its
// file is measured, and it compacts on its own schedule.
package main
