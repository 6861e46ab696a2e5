// Command bench compares sqlstore with etcd, with kine on the same kind of database (SQLite or Postgres) and with
// a bare gRPC server under kube-apiserver's load, and prints a table of ratios.
//
// Method. Every server is a process of its own, built from its Go module, on
// the same machine and the same file system in the same run. Each is filled
// with the same objects in the same shuffled order with fsync off, stopped,
// started again with an fsync before every acknowledgement (which strace
// counts, where it is installed), and from then on kept stopped by SIGSTOP
// except while it is measured, so that idle servers cost nothing; that is
// checked. A phase is measured in short slices that go through the servers in
// turn, forwards in one pair and backwards in the next (A B B A), so that drift
// of the machine hits all of them alike. Figures are medians over the pairs, and a
// ratio is the median of the pairs' own ratios, with its least and greatest.
//
// CPU is the server process's own user and system time, read from its
// CLOCK_PROCESS_CPUTIME_ID (nanoseconds, threads that ended included) before and
// after a slice and a short settling time, so that work put off until after the
// answer counts as well. "Above bare" is what is left of it when the CPU of
// the bare server is taken away: a server that speaks the same messages, answers
// each call with a prepared reply of the same size and stores nothing. Nobody who
// serves this API over grpc-go gets below that.
//
// On Postgres (-datastore postgres) each server has a Postgres server of its own, from the machine's binaries, else in a container,
// with Postgres's own settings; sqlstore has one with each number of replicas, over which clients and their connections are
// spread evenly. Postgres is stopped and measured with all its processes, and its CPU is told apart from the server's, which is that of all
// replicas together. Syncs are counted in Postgres's processes, whose settings are asked for, too. kine is measured as it comes, and
// with as many pooled connections as there are clients: as it comes, it keeps opening new ones.
// How soon a replica tells its watchers what another one wrote is measured by updates through the first replica and watches
// at the others, in the client's process, so by one clock: from the update's acknowledgement to the event.
//
// The load is closed loop (each client sends its next request when the last
// one is answered) and, in the phases named op@rate, open loop: requests are due
// at a fixed rate for all servers, and latency counts from when a request was
// due. In the closed loop a fast server gets more work at once, which
// makes each call cheaper for gRPC; the fixed rate shows CPU and latency at equal
// load. Every answer is checked: succeeded flags, revisions, keys, values, counts,
// order, and that each watcher saw every event once. A wrong one ends the run, except that
// kine on Postgres loses an event now and then, or cannot be compacted for a while: that is told, and the slice left out.
// Peak memory is the slice's VmHWM; the anonymous part is sampled beside it,
// because etcd's file mapping fills the rest with page cache. "Other load" is
// what else ran on the machine meanwhile, in processors: above a few percent the
// figures are noise.
//
// The phases no-compaction and compaction, measured only where -only names compaction, are updates at -rate, without and with etcd's
// flags for periodic compaction (-retention), for -compaction-slice each after as much of the load as the first compaction takes; the
// two take turns in going first. Each server is asked four times a second for its size and for how many rows it has deleted: "while
// rows go" is the p99 of the updates that ended in a quarter of a second in which some went, and is what is compared; the sizes are the largest of each third
// of the slice. kine tells neither: of it the file is measured, and it compacts by its own schedule.
package main
