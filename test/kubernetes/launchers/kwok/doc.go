// Package kwok tests that kwokctl creates clusters with sqlstore as their etcd, and compares them with etcd's.
//
//	SQLSTORE_TEST_LENGTH   nodes of a cluster (default 100), each of which has five pods
//	SQLSTORE_TEST_WHOLE    set: both stores take their turn twice
package kwok
