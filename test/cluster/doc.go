// Package cluster tests sqlstore's replicas with containers as hosts: a Postgres primary with a synchronous standby and three
// replicas, under load while one thing after the other fails. What clients saw is then compared with what the database holds:
// see package history for what is checked, package load for the load, package rig for the hosts and what can be done to them.
//
// Each fault is a test of its own, over an empty database and fresh replicas; TestMix throws them at one cluster in random order.
// How long clients went without an answer is printed as a table.
//
// Environment:
//
//	SQLSTORE_TEST_CLUSTER_MINUTES  length of TestMix (default 0.5; more for a soak)
//	SQLSTORE_TEST_SEED             of TestMix's faults
//	SQLSTORE_TEST_IMAGE            image of sqlstore to test, instead of one built of this module
package cluster
