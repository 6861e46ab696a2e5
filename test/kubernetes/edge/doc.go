// Package edge tests examples/edge, the control plane in one process, with nodes that kwok plays, and on Postgres, and
// compares it with the same control plane over etcd.
//
//	SQLSTORE_TEST_WHOLE   set: the comparison has four runs of each, with 20 s of rest before memory is measured
package edge
