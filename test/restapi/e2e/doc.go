// Package e2e tests the list/watch API from outside: over the binary, on SQLite and on two replicas that share a
// Postgres, with the tables of internal/testing/semantics, and compared with etcd's API of the same store.
package e2e
