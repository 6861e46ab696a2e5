// Package monitoring tests what deploy/monitoring offers to Prometheus and Grafana. promtool accepts the rules and runs
// their tests. A real Prometheus notices faults of real servers. Under a load, the real binary serves every metric and
// label that the rules and the dashboard name, with its default metrics, over SQLite or over replicas on Postgres, and
// a Prometheus has data for every panel. What the table of etcd's mixin in docs/observe.md says about its metrics is
// true.
package monitoring
