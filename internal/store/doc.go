// Package store is sqlstore's engine: it orders writes, evaluates transactions, answers reads, feeds watches and keeps
// leases. It knows neither SQL nor protobuf: below it is a [backend.Backend], above it etcdshim.
//
// Invariants that it keeps, and where:
//
//  1. A revision is assigned and its rows are committed in one database transaction that holds the clock; commit order
//     is revision order (txn_commit.go).
//  2. An acknowledged write is durable, and visible to every later read: the index is moved to the batch's revision
//     before its callers are answered (publish in store.go). Where several processes write to one database, a
//     linearizable read first asks it for what the others have acknowledged (replica_tail.go).
//  3. Nothing reaches a watcher before it is committed; a watcher sees every matching event once, in revision order,
//     all events of one revision in one response; a progress response with revision R follows every event <= R on its
//     stream (package watch).
//  4. A read at R returns the same rows for ever, or [ErrCompacted]; R above the current revision is
//     [ErrFutureRevision] (read.go, read_pin.go).
//  5. A commit of unknown outcome is never repeated (txn_sequencer.go): the tail shows what became of it (replica.go),
//     or a restart where this process is the only one that writes.
//  6. Memory is bounded: by a chunk of bounded bytes for streamed reads, by bytes for cached values, the event
//     window, each watch's backlog and all of them together, by count and bytes for the sequencer's queue. The index of
//     live keys is the exception: about 250 bytes a key.
//
// Over a [backend.Shared] any number of stores work side by side, each in a process of its own. They know of each other
// through the database alone: what others wrote is published here in the order of revisions, as if it had been written
// here (replica.go, replica_adopt.go); leases go by the database's clock (lease_shared.go); one of the stores, which a
// heartbeat elects, does the maintenance (replica_members.go). A database that has lost history is noticed by the batch
// that wrote the last revision held: memory is dropped, watches end. What a store does differently when it is alone is
// behind two interfaces: peers (peers.go) and leaseKeeper (lease.go).
//
// The files are named after their part: txn_ (operations, their queue, evaluation and commit), read_, lease_ and
// replica_. The newest rows in memory are the package index.
//
// Bytes handed to the store with a request belong to it from then on; rows that it hands out are shared and must not be
// changed.
package store
