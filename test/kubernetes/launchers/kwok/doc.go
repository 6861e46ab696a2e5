// Package kwok tests that kwokctl creates clusters with sqlstore as their etcd, and compares them with etcd's.
//
//	SQLSTORE_TEST_KWOK_NODES   nodes of a cluster (default 100)
//	SQLSTORE_TEST_KWOK_PODS    pods of a cluster (default 500)
//	SQLSTORE_TEST_KWOK_PAIRS   how often both stores take their turn (default 1)
package kwok
