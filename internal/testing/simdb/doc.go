// Package simdb simulates the database servers that replicas share, in memory. Its [Client] is a [backend.Shared] that
// passes backend/backendtest, and behaves like package postgres where the store can tell the difference: connections to
// one of several servers, locks with timeouts, transactions that end when their client stays silent, and commits that
// wait for a standby.
//
// A [Cluster] has one or more servers. Each has a state that never changes once it is committed: a commit makes a new
// one, which shares its nodes with the old one (state.go). So a standby is a server that holds an older state, a
// failover that loses commits makes it the primary, and a restore from a backup is an old state that becomes current.
// Every state knows the commits that led to it, also those that a purge has removed, so that a test can compare what
// clients saw with what really happened ([Cluster.History]).
//
// Faults come from two sides. A test calls the methods of [Cluster] to freeze, stop, promote or cut off a server, to
// restore an old state, to fill a disk or to step a clock. And a [Network] decides the fate of each request: how long
// it and its answer are under way, and whether either is lost.
//
// All waiting uses package time and channels, so a test in a bubble of testing/synctest runs in virtual time. One mutex
// guards everything, and nobody waits while holding it.
//
// What is simpler than in Postgres: reads of a standby do not exist, a transaction is one step after it has taken its
// locks, and rows become visible in the order of their commits.
package simdb
