// Package e2e tests the list/watch API from outside: over the binary, on SQLite and on two replicas that share a
// Postgres, with the tables of test/semantics, and with what etcd's API tells of the same store as the measure.
package e2e
