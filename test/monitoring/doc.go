// Package monitoring tests what deploy/monitoring offers to Prometheus and Grafana. promtool accepts the rules and runs
// their tests. A real Prometheus notices faults of real servers. Every metric and label that the rules, the dashboard
// and the table of etcd's mixin in docs/observe.md name is served by the real binary under a load, over SQLite or over
// replicas on Postgres.
package monitoring
