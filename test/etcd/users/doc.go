// Package users tests users and roles on the real binary: tokens across restarts and replicas, rights that end at once
// on all replicas, certificates, the gateway and the audit log. Package sidebyside compares the answers with etcd's.
package users
