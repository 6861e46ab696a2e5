// Package e2e tests what only the real binary shows of the list/watch API: its flags, and watches across SIGKILL, on
// SQLite and on two replicas that share a Postgres, compared with etcd's API of the same store. Packages paging and
// internal/restapi have the cases of lists, watches and values.
package e2e
