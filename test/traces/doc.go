// Package traces tests the traces of the real binary: what it exports to a collector of OpenTelemetry, over SQLite and
// over Postgres.
//
//	collector/   the collector's receiver of OTLP, in the test's process
//
// The test with a kube-apiserver is in test/kubernetes/apiserver.
package traces
