package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchLogins adds the logins by their result.
func (m *Metrics) WatchLogins(read func() (succeeded, failed, throttled uint64)) {
	const name, help = "sqlstore_logins_total", "Checks of users' passwords, by result."
	for result, value := range map[string]func() float64{
		"ok":        func() float64 { ok, _, _ := read(); return float64(ok) },
		"failed":    func() float64 { _, failed, _ := read(); return float64(failed) },
		"throttled": func() float64 { _, _, throttled := read(); return float64(throttled) },
	} {
		m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{"result": result},
		}, value))
	}
}

// WatchAudit adds the entries that the audit log lost.
func (m *Metrics) WatchAudit(lost func() uint64) {
	m.counterFunc("sqlstore_audit_entries_lost_total", "Calls that the audit log should have, and has not.",
		func() float64 { return float64(lost()) })
}
