// Package cluster tests sqlstore's replicas with containers as hosts: a Postgres primary with a synchronous standby and
// three replicas, under load while one component after another fails. Then it compares what clients saw with what the
// database contains. Package history has the checks, package load the load; package audit applies the checks to a load,
// and package rig has the cluster and its failures.
//
// Each fault is a separate test, over an empty database and new replicas; TestMix applies them to one cluster in random
// order. A table shows how long clients got no answer.
//
// Environment:
//
//	SQLSTORE_TEST_LENGTH           minutes of TestMix (default 0.5; more for a soak)
//	SQLSTORE_TEST_SEED             of TestMix's faults
//	SQLSTORE_TEST_IMAGE            image of sqlstore to test, instead of one built from the sources
package cluster
