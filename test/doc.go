// Package test is the root of the module of the heavy suites, which start real servers, databases and the programs of
// others. They are not in sqlstore's own module because of their dependencies, and Kubernetes' own are in a third.
//
//	etcd/        the same requests to etcd and sqlstore; etcd's tools, hostile clients, crashes
//	etcdtests/   etcd's own end-to-end tests
//	restapi/     the list/watch API and its description
//	kubernetes/  a module of Kubernetes' storage tests, a real kube-apiserver, and programs that start etcd
//	faults/      power cuts, flipped bits, and containers as hosts that fail, some under Patroni
//	simulation/  replicas over a simulated database, in virtual time
//	moves/       moves from kine and back
//	backups/     continuous backups to S3
//	pitr/        other programs' restores to a point in time
//	packages/    packages that are installed, upgraded and removed, and static programs
//	traces/      what a collector of OpenTelemetry receives
//	monitoring/  the rules for Prometheus and the dashboard, against real metrics
//	bench/       a comparison with etcd, kine and a bare gRPC server
//	programs/    builds the programs of others
//	support/     what several suites use, besides what the main module's tests use: internal/testing
package test
