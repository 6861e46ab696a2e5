// Package store is sqlstore's engine. It orders writes, evaluates transactions, answers reads, feeds watches and keeps
// leases. It knows neither SQL nor protobuf: below it is a [backend.Backend], above it etcdshim.
//
// The invariants, and where each is kept:
//
//  1. One database transaction, which holds the clock, assigns a revision and commits its rows. Commit order is
//     revision order (txn_commit.go).
//  2. An acknowledged write is durable and visible to every later read: the store moves the index to the batch's
//     revision before it answers the batch's callers (publish in store.go). Where several processes write to one
//     database, a linearizable read first asks the database what the others have acknowledged (replica_tail.go).
//  3. Nothing reaches a watcher before it is committed. A watcher sees every matching event once, in revision order,
//     and all events of one revision in one response. A progress response with revision R follows every event <= R on
//     its stream (package watch).
//  4. A read at R always returns the same rows, or [ErrCompacted]. R above the current revision returns
//     [ErrFutureRevision] (read.go, read_pin.go).
//  5. The store never retries a commit of unknown outcome (txn_sequencer.go). The tail reveals the outcome
//     (replica.go); where this process is the only writer, a restart does.
//  6. Memory is bounded: streamed reads by the bytes of a chunk, what all reads fetch by reservations
//     (read_reserve.go, read_get.go), cached values by bytes, the undo log by bytes, the event window by bytes, watch
//     backlogs one by one and in total, and the sequencer's queue by count and bytes. The index of live keys is the
//     exception: it takes about 250 bytes per key.
//
// Over a [backend.Shared], any number of stores work side by side, each in its own process. They know of each other
// only through the database. Each store publishes what the others wrote in revision order, as if it had written it
// itself (replica.go, replica_adopt.go). Leases run on the database's clock (lease_shared.go). Heartbeats elect one
// store to do the maintenance (replica_members.go). To detect that the database has lost history, a store checks which
// batch wrote the last revision that it holds; if history was lost, it drops its memory and ends its watches. Two
// interfaces hide what differs when a store is alone: peers (peers.go) and leaseKeeper (lease.go).
//
// Each call is checked against the users and roles (auth.go), which a batch changes like everything else
// (authOperation), and which a replica reads where it learns that they have changed (replica_adopt.go). The tokens of
// users are in the database and, as far as they are used, in memory (auth_tokens.go).
//
// A [backend.Verifying] whose server does not notice damage to its files is verified before anything relies on its
// indexes (verify.go). On request, the keys in memory are compared with all rows (compare.go).
//
// The file name prefixes name the parts: txn_ (operations, their queue, evaluation and commit), read_, lease_, auth_
// and replica_. Package index keeps the newest rows in memory.
//
// The store owns the bytes that a request passes to it. The rows that it returns are shared; callers must not change
// them.
package store
